//! Where the marks of an axis stand, and what they are called.

/// A mark: its place on the axis, and what is written beside it.
pub(crate) type Tick = (f64, String);

/// How many steps an axis is divided into, about.
const N_STEPS: f64 = 5.0;

/// No axis has more marks, whatever rounding does.
const MAX_TICKS: usize = 20;

/// The size of a step between marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Whole numbers only: epochs.
    Whole,
    /// Any.
    Any,
}

/// Round numbers from `low` to `high`.
pub(crate) fn linear(low: f64, high: f64, steps: Steps) -> Vec<Tick> {
    let step = match steps {
        Steps::Whole => round_step((high - low) / N_STEPS).max(1.0),
        Steps::Any => round_step((high - low) / N_STEPS),
    };
    let first = (low / step).ceil();
    let largest = low.abs().max(high.abs());
    let ticks = (0..MAX_TICKS).map(|number| (first + number as f64) * step);
    let ticks = ticks.take_while(|&tick| tick <= high + step * 1e-9);
    ticks.map(|tick| (tick, name(tick, step, largest))).collect()
}

/// Round numbers from 10^`low` to 10^`high`; their places are the logarithms.
pub(crate) fn logarithmic(low: f64, high: f64) -> Vec<Tick> {
    let (first, last) = (low.floor() as i32, high.floor() as i32);
    let n_decades = (last - first) as usize;
    let mantissas: &[f64] = if n_decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = (first..=last).step_by(n_decades / 8 + 1);
    let ticks = decades.flat_map(|exponent| {
        let place = move |mantissa: f64| f64::from(exponent) + mantissa.log10();
        mantissas.iter().map(move |&m| (place(m), name_of_power(m, exponent)))
    });
    let ticks: Vec<Tick> = ticks.filter(|(at, _)| (low..=high).contains(at)).collect();
    if ticks.len() >= 2 {
        return ticks;
    }
    // Less than a decade: marks as on a linear axis, at their logarithms.
    let between = linear(10_f64.powf(low), 10_f64.powf(high), Steps::Any);
    between.into_iter().filter(|(at, _)| *at > 0.0).map(|(at, name)| (at.log10(), name)).collect()
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(exponent(step).into());
    let rounded = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999_999);
    rounded.unwrap_or(10.0) * power
}

/// The power of ten of the leading digit.
fn exponent(value: f64) -> i32 {
    // A power of ten must not fall into the decade below by rounding.
    (value.log10() + 1e-9).floor() as i32
}

/// A number that is a multiple of `step`, `largest` being the largest one beside it.
fn name(value: f64, step: f64, largest: f64) -> String {
    if !(1e-4..1e6).contains(&largest) {
        if value == 0.0 {
            return "0".to_owned();
        }
        let n_digits = (exponent(value.abs()) - exponent(step)).clamp(0, 9) as usize;
        return format!("{value:.n_digits$e}");
    }
    let n_digits = (-exponent(step)).clamp(0, 12) as usize;
    // Zero has no sign.
    let value = if value == 0.0 { 0.0 } else { value };
    format!("{value:.n_digits$}")
}

fn name_of_power(mantissa: f64, exponent: i32) -> String {
    if !(-4..6).contains(&exponent) {
        return format!("{mantissa}e{exponent}");
    }
    let n_digits = (-exponent).max(0) as usize;
    format!("{:.n_digits$}", mantissa * 10_f64.powi(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!(
            names(&linear(0.0, 1.0, Steps::Any)),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(names(&linear(-3.0, 7.0, Steps::Any)), ["-2", "0", "2", "4", "6"]);
        assert_eq!(names(&linear(0.0, 99.0, Steps::Whole)), ["0", "20", "40", "60", "80"]);
        assert_eq!(names(&linear(0.0, 1.0, Steps::Whole)), ["0", "1"]);
        assert_eq!(names(&linear(0.71, 0.743, Steps::Any)), ["0.71", "0.72", "0.73", "0.74"]);
        assert_eq!(names(&linear(0.0, 3.1e7, Steps::Any)), ["0", "1e7", "2e7", "3e7"]);
        assert_eq!(names(&linear(0.0, 4.5e-7, Steps::Any)), ["0", "1e-7", "2e-7", "3e-7", "4e-7"]);
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten() {
        let ticks = logarithmic(-2.0, 3.0);
        assert_eq!(names(&ticks), ["0.01", "0.1", "1", "10", "100", "1000"]);
        assert_eq!(ticks[3].0, 1.0);
        assert_eq!(names(&logarithmic(0.0, 1.3)), ["1", "2", "5", "10"]);
        let within = logarithmic(0.5, 0.6);
        assert!(
            within.len() > 2 && within.iter().all(|(at, _)| (0.5..=0.6).contains(at)),
            "{within:?}"
        );
        assert!(logarithmic(-290.0, 300.0).len() <= MAX_TICKS);
    }
}
