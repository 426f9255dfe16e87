//! A whole training without a link: losses, validation scores, the test score at the best of them.
//!
//! How late messages come changes no bit of a run, so that scores need no link.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result};
use sylvie::comm::{Communicator as _, ThreadOptions, Threads, run_ranks};
use sylvie::gnn::ModelConfig;
use sylvie::pipeline::{
    EpochRecord, ExchangePolicy, Instruments, ObserverError, TrainSettings, train,
};
use sylvie::tensor::{CpuBackend, Wire};

use crate::policies::split::Split;

/// What became of one training.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve {
    pub(crate) epochs: Vec<EpochPoint>,
    /// Where the validation score is best, the first of equals.
    pub(crate) best_epoch: u32,
    pub(crate) best_val: f64,
    /// The test score there.
    pub(crate) test: f64,
    /// The test score at the end.
    pub(crate) last_test: f64,
}

/// One epoch of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EpochPoint {
    pub(crate) epoch: u32,
    pub(crate) loss: f64,
    /// Where it was evaluated.
    pub(crate) val: Option<f64>,
}

/// How long a training is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) epochs: u32,
    pub(crate) eval_every: u32,
}

/// Trains.
///
/// # Errors
/// Whatever ends the training early; scores that are not defined.
pub(crate) fn curve(
    split: &Split,
    model: &ModelConfig,
    policy: &ExchangePolicy,
    seed: u64,
    length: Length,
) -> Result<Curve> {
    let settings = TrainSettings {
        n_epochs: length.epochs,
        seed,
        eval_every: length.eval_every,
        metric: split.metric,
        ..TrainSettings::new(model.clone(), policy.clone())
    };
    let options = ThreadOptions { deadline: Duration::from_secs(3600), ..ThreadOptions::default() };
    let began = Instant::now();
    let clock = || began.elapsed();
    let points = Mutex::new(Vec::new());
    type Comm = Threads<<CpuBackend as Wire>::Bytes>;
    let outcomes = run_ranks(split.inputs.len(), &options, |comm: &mut Comm| {
        let backend = CpuBackend::try_new(1)?;
        let is_first = comm.rank() == 0;
        let mut note = |record: &EpochRecord| -> Result<(), ObserverError> {
            if is_first {
                let val = record.scores.and_then(|scores| scores.val);
                let point = EpochPoint { epoch: record.epoch, loss: record.loss, val };
                points.lock().unwrap_or_else(PoisonError::into_inner).push(point);
            }
            Ok(())
        };
        let input = &split.inputs[comm.rank()];
        Ok(train(&backend, comm, input, &settings, Instruments::clock(&clock), &mut note)?)
    });
    let outcomes = outcomes.map_err(|error: sylvie::comm::RankError<Error>| match error {
        sylvie::comm::RankError::Failed { rank, source } => source.context(format!("rank {rank}")),
        other => Error::msg(other.to_string()),
    })?;
    let outcome = outcomes.first().context("a run of no ranks")?;
    let defined = |score: Option<f64>| score.context("a score that is not defined");
    Ok(Curve {
        epochs: points.into_inner().unwrap_or_else(PoisonError::into_inner),
        best_epoch: outcome.best_epoch,
        best_val: defined(outcome.best.val)?,
        test: defined(outcome.best.test)?,
        last_test: defined(outcome.last.test)?,
    })
}

impl Curve {
    /// The best validation score of the first epochs: those below `end`.
    pub(crate) fn best_before(&self, end: u32) -> Option<f64> {
        let points = self.epochs.iter().filter(|point| point.epoch < end);
        points.filter_map(|point| point.val).max_by(f64::total_cmp)
    }

    /// The mean validation score of the first epochs: those below `end`.
    pub(crate) fn mean_before(&self, end: u32) -> Option<f64> {
        let points = self.epochs.iter().filter(|point| point.epoch < end);
        let scores: Vec<f64> = points.filter_map(|point| point.val).collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Curve, EpochPoint};

    #[test]
    fn the_first_epochs_are_those_before_the_end() {
        let vals = [Some(0.1), None, Some(0.5), Some(0.3), Some(0.9)];
        let points = (0..).zip(vals).map(|(epoch, val)| EpochPoint { epoch, loss: 1.0, val });
        let curve = Curve { epochs: points.collect(), ..Curve::default() };
        assert_eq!(curve.best_before(4), Some(0.5));
        assert!((curve.mean_before(4).unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(curve.best_before(0), None);
        assert_eq!(curve.mean_before(0), None);
    }
}
