//! Axes: which values they hold, and where these stand.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::ticks::{self, Steps, Tick};

/// How values stand on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// By their size.
    #[default]
    Linear,
    /// By their logarithm; what is not above zero has no place.
    Logarithmic,
}

/// Beyond this, and nearer to zero than its inverse, sizes are not told apart: sums and differences of
/// places stay finite and normal.
const LARGEST: f64 = 1e290;

impl Scale {
    /// Where a value stands, unless it has no place.
    pub(crate) fn place(self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let value = value.clamp(-LARGEST, LARGEST);
        let value = if value.abs() < LARGEST.recip() { 0.0 } else { value };
        match self {
            Self::Linear => Some(value),
            Self::Logarithmic => (value > 0.0).then(|| value.log10()),
        }
    }
}

/// What is left beyond the outermost values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Margin {
    /// Nothing.
    None,
    /// A little, where values end away from zero.
    Some,
}

/// An axis over places, which are finite.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<Tick>,
}

impl Axis {
    /// An axis of values, which holds `places`.
    pub(crate) fn over(
        places: impl Iterator<Item = f64>,
        scale: Scale,
        margin: Margin,
        steps: Steps,
    ) -> Self {
        let nothing = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = places.fold(nothing, |(low, high), at| (low.min(at), high.max(at)));
        let (low, high) = widened(low, high);
        let beyond = match margin {
            Margin::None => 0.0,
            Margin::Some => (high - low) * 0.05,
        };
        let is_base = |end: f64| scale == Scale::Linear && end == 0.0;
        let low = if is_base(low) { low } else { low - beyond };
        let high = if is_base(high) { high } else { high + beyond };
        let ticks = match scale {
            Scale::Linear => ticks::linear(low, high, steps),
            Scale::Logarithmic => ticks::logarithmic(low, high),
        };
        Self { low, high, ticks }
    }

    /// An axis of things: the n-th stands from n to n + 1, its name in the middle.
    pub(crate) fn of_names(names: impl Iterator<Item = String>) -> Self {
        let ticks: Vec<Tick> =
            names.enumerate().map(|(number, name)| (number as f64 + 0.5, name)).collect();
        Self { low: 0.0, high: ticks.len().max(1) as f64, ticks }
    }
}

/// Ends that lie apart.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if low > high {
        (0.0, 1.0)
    } else if high - low > size * 1e-9 {
        (low, high)
    } else if size == 0.0 {
        (low, low + 1.0)
    } else {
        (low - size * 0.1, high + size * 0.1)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    /// What lies beyond an end is moved to it.
    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let along = ((place - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        from + (f64::from(to - from) * along).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(at, _)| at == value);
        tick.map(|(_, name)| name.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(values: &[f64], scale: Scale, margin: Margin) -> Axis {
        let places = values.iter().filter_map(|&value| scale.place(value));
        Axis::over(places, scale, margin, Steps::Any)
    }

    #[test]
    fn values_stand_where_they_belong() {
        let linear = axis(&[0.0, f64::NAN, 4.0], Scale::Linear, Margin::None);
        assert_eq!([0.0, 1.0, 4.0].map(|value| linear.map(&value, (0, 100))), [0, 25, 100]);
        let logarithmic = axis(&[1.0, 0.0, -3.0, 10_000.0], Scale::Logarithmic, Margin::None);
        let places = [1.0, 100.0].map(|value| Scale::Logarithmic.place(value).unwrap());
        assert_eq!(places.map(|place| logarithmic.map(&place, (100, 0))), [100, 50]);
        assert_eq!(Scale::Logarithmic.place(0.0), None);
    }

    #[test]
    fn ends_lie_apart_and_zero_stays_an_end() {
        for values in [&[][..], &[0.0], &[7.5], &[-1e-300, 1e-300], &[f64::MAX], &[1e9, 1e9 + 1e-7]]
        {
            let axis = axis(values, Scale::Linear, Margin::Some);
            assert!(axis.low < axis.high, "{values:?}: {axis:?}");
        }
        let bars = axis(&[0.0, 2.0], Scale::Linear, Margin::Some);
        assert!(bars.low == 0.0 && bars.high > 2.0);
    }

    proptest! {
        #[test]
        fn every_axis_has_marks_within_it(
            values in prop::collection::vec(any::<f64>(), 0..6),
            scale in prop::sample::select(vec![Scale::Linear, Scale::Logarithmic]),
        ) {
            let axis = axis(&values, scale, Margin::Some);
            prop_assert!(axis.low.is_finite() && axis.high.is_finite() && axis.low < axis.high);
            prop_assert!(axis.ticks.len() <= 30);
            for (at, name) in &axis.ticks {
                let pixel = axis.map(at, (0, 1000));
                prop_assert!((0..=1000).contains(&pixel) && !name.is_empty());
            }
        }
    }
}
