//! One training run, watched: when each epoch ended, its record, and every span of its ranks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use sylvie::comm::{Communicator as _, LinkModel, Purpose, ThreadOptions, Threads, run_ranks};
use sylvie::gnn::ModelConfig;
use sylvie::pipeline::{
    Activity, Checkpoints, EpochRecord, ExchangePolicy, Instruments, Lane, Observer, ObserverError,
    Span, Step, Tracer, TrainSettings, train_with_checkpoints,
};
use sylvie::tensor::{CpuBackend, Wire};

use super::split::Split;
use super::walk::{EpochTimes, RankSteps};

/// What is trained, and how.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) split: &'a Split,
    pub(crate) model: &'a ModelConfig,
    pub(crate) policy: &'a ExchangePolicy,
    pub(crate) n_threads: usize,
}

/// How many epochs a run takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epochs {
    /// The first ones, which are not counted: at least one.
    pub(crate) n_warm: usize,
    pub(crate) n_measured: usize,
}

/// The measured epochs of a run.
pub(crate) struct Outcome {
    /// Seconds from the end of the epoch before to the end of each, on rank 0; evaluation left out.
    pub(crate) epochs_s: Vec<f64>,
    pub(crate) records: Vec<EpochRecord>,
    /// What each rank computed.
    pub(crate) times: Vec<EpochTimes>,
    /// Everything that each rank did in the last epoch.
    pub(crate) last_epoch: Vec<Vec<Span>>,
}

/// Keeps all spans, a list a rank.
struct Spans(Vec<Mutex<Vec<Span>>>);

impl Tracer for Spans {
    fn span(&self, span: &Span) {
        self.0[span.rank].lock().unwrap_or_else(PoisonError::into_inner).push(*span);
    }
}

/// Trains for the epochs asked for. The run is stopped after them, before the evaluation that every complete run ends
/// with: over a slow link that takes half as long as an epoch.
///
/// # Errors
/// Whatever ends the training early.
pub(crate) fn run(
    subject: Subject<'_>,
    epochs: Epochs,
    link: Option<LinkModel>,
) -> Result<Outcome> {
    let n_ranks = subject.split.inputs.len();
    let n_epochs = epochs.n_warm + epochs.n_measured;
    let settings = TrainSettings {
        n_epochs: n_epochs as u32 + 1,
        eval_every: u32::MAX,
        metric: subject.split.metric,
        ..TrainSettings::new(subject.model.clone(), subject.policy.clone())
    };
    let deadline = Duration::from_secs(3600);
    let options = ThreadOptions { deadline, link, ..ThreadOptions::default() };
    let began = Instant::now();
    let clock = || began.elapsed();
    let spans = Spans((0..n_ranks).map(|_| Mutex::default()).collect());
    let ends = Mutex::new(Vec::new());
    // Raised in the epoch before the last, so that every rank finds it raised in that one or not.
    let stop = AtomicBool::new(n_epochs == 1);
    type Comm = Threads<<CpuBackend as Wire>::Bytes>;
    run_ranks(n_ranks, &options, |comm: &mut Comm| -> Result<()> {
        let backend = CpuBackend::try_new(subject.n_threads)?;
        let is_first = comm.rank() == 0;
        let mut note = |record: &EpochRecord| -> Result<(), ObserverError> {
            if is_first {
                let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
                ends.push((began.elapsed(), record.clone()));
                stop.store(ends.len() + 1 >= n_epochs, Ordering::Relaxed);
            }
            Ok(())
        };
        let observer: &mut dyn Observer = &mut note;
        let instruments = Instruments { clock: &clock, tracer: Some(&spans) };
        let input = &subject.split.inputs[comm.rank()];
        let checkpoints = Checkpoints { stop: Some(&stop), ..Checkpoints::none() };
        train_with_checkpoints(
            &backend,
            comm,
            input,
            &settings,
            instruments,
            observer,
            checkpoints,
        )?;
        Ok(())
    })
    .map_err(|error| Error::msg(format!("{error:#}")))?;
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let spans: Vec<Vec<Span>> =
        spans.0.into_iter().map(|rank| rank.into_inner().unwrap_or_default()).collect();
    Ok(Outcome::new(&ends, &spans, epochs.n_warm))
}

impl Outcome {
    /// Takes the epochs of another run of the same subject as well.
    pub(crate) fn append(&mut self, other: Self) {
        self.epochs_s.extend(other.epochs_s);
        self.records.extend(other.records);
        self.times.extend(other.times);
    }

    fn new(ends: &[(Duration, EpochRecord)], spans: &[Vec<Span>], n_warm: usize) -> Self {
        let epochs_s = ends.windows(2).skip(n_warm - 1).map(|pair| {
            let [(before, _), (end, record)] = pair else { unreachable!("windows of two") };
            (*end - *before).as_secs_f64() - record.eval_ms / 1e3
        });
        let records: Vec<EpochRecord> =
            ends.iter().skip(n_warm).map(|(_, record)| record.clone()).collect();
        let times = records.iter().map(|record| epoch_times(record, spans)).collect();
        let last = records.last().map(|record| record.epoch);
        let of_last = |span: &&Span| span.purpose == Purpose::Training && Some(span.epoch) == last;
        let last_epoch =
            spans.iter().map(|rank| rank.iter().filter(of_last).copied().collect()).collect();
        Self { epochs_s: epochs_s.collect(), records, times, last_epoch }
    }
}

/// What each rank computed and coded in the epoch of a record.
fn epoch_times(record: &EpochRecord, spans: &[Vec<Span>]) -> EpochTimes {
    let is_of_epoch =
        |span: &&Span| span.purpose == Purpose::Training && span.epoch == record.epoch;
    let mut steps: Vec<Step> = Vec::new();
    let mut ranks = Vec::new();
    for (spans, times) in spans.iter().zip(&record.ranks) {
        let mut rank = RankSteps::default();
        steps.clear();
        for span in spans.iter().filter(is_of_epoch) {
            let seconds = (span.end - span.start).as_secs_f64();
            match (span.lane, span.activity) {
                (Lane::Compute, Activity::Step(step)) => {
                    steps.push(step);
                    rank.steps.push(seconds);
                }
                (_, Activity::Encode(..)) => rank.encode.push(seconds),
                (_, Activity::Decode(..)) => rank.decode.push(seconds),
                _ => {}
            }
        }
        let epoch_ms = times.compute_ms + times.blocked_ms + times.reduce_ms;
        rank.rest = (epoch_ms / 1e3 - rank.steps.iter().sum::<f64>()).max(0.0);
        ranks.push(rank);
    }
    EpochTimes { steps, ranks }
}
