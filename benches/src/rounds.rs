//! Alternated runs and their medians.

use std::time::Instant;

/// Something measured: a name and what to run.
pub(crate) struct Subject<'a> {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnMut() + 'a>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Median seconds of each subject over `n_rounds` rounds, each of which runs every subject once, after
/// one round that is not counted.
pub(crate) fn medians_s(subjects: &mut [Subject<'_>], n_rounds: usize) -> Vec<f64> {
    let mut times_s = vec![Vec::with_capacity(n_rounds); subjects.len()];
    for round in 0..=n_rounds {
        for (subject, times_s) in subjects.iter_mut().zip(&mut times_s) {
            let start = Instant::now();
            (subject.run)();
            if round > 0 {
                times_s.push(start.elapsed().as_secs_f64());
            }
        }
    }
    times_s.into_iter().map(median).collect()
}

/// The middle one of an odd number of values, the upper of the two in the middle of an even one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::{Subject, median, medians_s};

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn every_subject_runs_in_every_round() {
        let count = std::cell::Cell::new(0);
        let run = || count.set(count.get() + 1);
        let mut subjects = [Subject::new("a", run), Subject::new("b", run)];
        assert_eq!(medians_s(&mut subjects, 3).len(), 2);
        drop(subjects);
        assert_eq!(count.get(), 8);
    }
}
