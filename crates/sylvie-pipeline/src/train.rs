//! One rank's training run.

use sylvie_comm::{CommError, Communicator, Purpose};
use sylvie_gnn::{Adam, Gradients, ModelConfig, Network, Targets, Weights};
use sylvie_graph::Role;
use sylvie_lowbit::{RowCodec, Width};
use sylvie_tensor::Wire;

use crate::clock::{Clock, timed};
use crate::epoch::{Flow, Pace, Stage};
use crate::error::TrainError;
use crate::evaluation::{Scores, evaluation_pace, forward_logits, score};
use crate::exchange::Exchanger;
use crate::part_data::{PartData, RankInput};
use crate::record::{EpochRecord, Observer, RankEpoch, combine};
use crate::schedule::{Step, is_exchanged, plan_epoch};
use crate::settings::TrainSettings;

/// What a run ends with; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOutcome {
    /// Epochs trained.
    pub n_epochs: u32,
    /// The epoch with the best validation score, the first of equals.
    pub best_epoch: u32,
    /// Scores there.
    pub best: Scores,
    /// Scores of the last evaluation.
    pub last: Scores,
    /// Host values of the weights at the best epoch, a tensor an entry, in the order of
    /// `sylvie_gnn::Weights::specs`.
    pub weights: Vec<Vec<f32>>,
    /// Bytes that the same exchanges of one epoch take in full precision, over all ranks.
    pub fp32_bytes_per_epoch: u64,
    /// Bytes sent for raw features before the first epoch, over all ranks.
    pub setup_bytes: u64,
    /// Bytes sent for all evaluations, over all ranks.
    pub eval_bytes: u64,
}

/// Trains one rank's part; every rank calls it with the same settings and its own `input`.
///
/// `observer` is told of each epoch on every rank; an error from it ends the run.
///
/// # Errors
/// Everything that ends a run early; the caller then aborts its communicator.
/// # Panics
/// If `input` is not this rank's part, or does not fit the network.
/// # Paper
/// Algorithms 1 and 2.
pub fn train<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    input: &RankInput,
    settings: &TrainSettings,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<TrainOutcome, TrainError> {
    let mut run = Run::new(backend, comm, input, settings, clock)?;
    let mut last = None;
    for epoch in 0..settings.n_epochs {
        let mut record = run.epoch(epoch)?;
        let is_last = epoch + 1 == settings.n_epochs;
        let is_due = is_last || (epoch + 1).is_multiple_of(settings.eval_every.max(1));
        if is_due {
            run.evaluate(epoch, &mut record)?;
        }
        observer.epoch(&record).map_err(|source| TrainError::Observer { epoch, source })?;
        last = record.scores.or(last);
        let is_patient = settings.patience.is_none_or(|patience| run.n_since_best < patience);
        if is_due && !is_patient {
            return run.outcome(epoch + 1, last);
        }
    }
    run.outcome(settings.n_epochs, last)
}

/// The model with the best validation score so far.
struct Best {
    epoch: u32,
    scores: Scores,
    weights: Vec<Vec<f32>>,
}

/// A run's state on one rank.
pub(crate) struct Run<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> {
    exchanger: Exchanger<'a, B, C>,
    settings: &'a TrainSettings,
    input: &'a RankInput,
    network: Network,
    schedule: Vec<Step>,
    training: Stage<B>,
    evaluation: Option<Stage<B>>,
    targets: Targets<B>,
    n_training_nodes: u64,
    weights: Weights<B>,
    adam: Adam<B>,
    flow: Flow<B, C::Pending>,
    /// Reduced gradients of the epoch.
    pub(crate) gradients: Option<Gradients<B>>,
    best: Option<Best>,
    n_since_best: u32,
    setup_bytes: u64,
    eval_bytes: u64,
}

impl<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> Run<'a, B, C> {
    pub(crate) fn new(
        backend: &'a B,
        comm: &'a mut C,
        input: &'a RankInput,
        settings: &'a TrainSettings,
        clock: &'a dyn Clock,
    ) -> Result<Self, TrainError> {
        let model = &settings.model;
        let network = Network::new(model.clone())?;
        let set_up = |source| TrainError::SetUp { source };
        let training = Stage::new(backend, comm, model, &input.training, 0)?;
        let evaluation = match &input.evaluation {
            Some(data) => Some(Stage::new(backend, comm, model, data, 1)?),
            None => None,
        };
        let PartData { labels, .. } = &input.training;
        let targets = Targets::new(backend, labels, &input.training.rows(Role::Train));
        let n_training_nodes = sum_u64(comm, targets.n_rows() as u64, set_up)?;
        if n_training_nodes == 0 {
            return Err(TrainError::NoTrainingNodes);
        }
        let setup = comm.take_traffic().of_purpose(Purpose::Setup).total_bytes();
        let setup_bytes = sum_u64(comm, setup, set_up)?;
        let weights = match &settings.initial_weights {
            Some(tensors) => Weights::from_host(backend, model, tensors),
            None => Weights::glorot(backend, model, settings.seed),
        };
        Ok(Self {
            adam: Adam::new(backend, model, settings.learning_rate, settings.weight_decay),
            exchanger: Exchanger::new(backend, comm, clock, settings.seed),
            settings,
            input,
            schedule: plan_epoch(model),
            network,
            training,
            evaluation,
            targets,
            n_training_nodes,
            weights,
            flow: Flow::default(),
            gradients: None,
            best: None,
            n_since_best: 0,
            setup_bytes,
            eval_bytes: 0,
        })
    }

    pub(crate) fn epoch(&mut self, epoch: u32) -> Result<EpochRecord, TrainError> {
        let clock = self.exchanger.clock;
        let start = clock.now();
        let mut rank = RankEpoch::default();
        for step in self.schedule.clone() {
            self.step(epoch, step, &mut rank)?;
        }
        let traffic = self.exchanger.comm.take_traffic();
        let sent = traffic.of_purpose(Purpose::Training);
        rank.epoch = clock.now().saturating_sub(start);
        rank.payload_bytes = sent.payload_bytes;
        rank.metadata_bytes = sent.metadata_bytes;
        rank.messages = sent.n_messages;
        rank.reduce_bytes = traffic.reduced.n_bytes;
        let ranks = self.exchanger.comm.all_gather(&rank.to_bytes());
        let ranks = ranks.map_err(|source| TrainError::Comm { epoch, source })?;
        let record = combine(epoch, &ranks, self.n_training_nodes).map_err(|peer| {
            let (rank, what) = (self.exchanger.comm.rank(), "epoch figures");
            TrainError::Damaged { rank, peer, what }
        })?;
        if !record.loss.is_finite() {
            return Err(TrainError::NotFinite { epoch, loss: record.loss });
        }
        Ok(record)
    }

    fn step(&mut self, epoch: u32, step: Step, rank: &mut RankEpoch) -> Result<(), TrainError> {
        let backend = self.exchanger.backend;
        match step {
            Step::Reduce => {
                let mut gradients = self.flow.take_gradients();
                let mut sums = gradients.flatten(backend);
                let (clock, comm) = (self.exchanger.clock, &mut self.exchanger.comm);
                let result = timed(clock, &mut rank.times.reduce, || comm.reduce(&mut sums));
                result.map_err(|source| TrainError::Comm { epoch, source })?;
                let share = 1.0 / self.n_training_nodes as f32;
                sums.iter_mut().for_each(|value| *value *= share);
                gradients.assign_flat(backend, &sums);
                self.gradients = Some(gradients);
            }
            Step::Update => {
                let gradients = self.gradients.as_ref().expect("reduced gradients");
                self.adam.step(backend, gradients, &mut self.weights);
            }
            step => {
                let pace = Pace {
                    network: &self.network,
                    weights: &self.weights,
                    stage: &self.training,
                    epoch,
                    purpose: Purpose::Training,
                    policy: self.settings.exchange,
                };
                self.flow.run(pace, step, &mut self.exchanger, &self.targets, rank)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, epoch: u32, record: &mut EpochRecord) -> Result<(), TrainError> {
        let clock = self.exchanger.clock;
        let start = clock.now();
        let data = self.input.evaluation.as_ref().unwrap_or(&self.input.training);
        let stage = self.evaluation.as_ref().unwrap_or(&self.training);
        let pace = evaluation_pace(&self.network, &self.weights, stage, epoch);
        let logits = forward_logits(&mut self.exchanger, pace, data)?;
        let scores = score(self.exchanger.comm, epoch, self.settings.metric, &logits, data)?;
        let sent = self.exchanger.comm.take_traffic().of_purpose(Purpose::Evaluation);
        let failed = |source| TrainError::Comm { epoch, source };
        record.eval_bytes = sum_u64(self.exchanger.comm, sent.total_bytes(), failed)?;
        record.eval_ms = clock.now().saturating_sub(start).as_secs_f64() * 1e3;
        record.scores = Some(scores);
        self.eval_bytes += record.eval_bytes;
        let is_better = match &self.best {
            None => true,
            // An undefined score is worse than any.
            Some(best) => scores.val.unwrap_or(-1.0) > best.scores.val.unwrap_or(-1.0),
        };
        if is_better {
            let weights = self.weights.to_host(self.exchanger.backend);
            self.best = Some(Best { epoch, scores, weights });
            self.n_since_best = 0;
        } else {
            self.n_since_best += 1;
        }
        Ok(())
    }

    fn outcome(self, n_epochs: u32, last: Option<Scores>) -> Result<TrainOutcome, TrainError> {
        let model = &self.settings.model;
        let own_bytes = fp32_bytes(model, self.training.plan.n_rows_sent());
        let failed = |source| TrainError::Comm { epoch: n_epochs.saturating_sub(1), source };
        let fp32_bytes_per_epoch = sum_u64(self.exchanger.comm, own_bytes, failed)?;
        let nothing = Scores { train: None, val: None, test: None };
        let best = self.best.unwrap_or_else(|| Best {
            epoch: 0,
            scores: nothing,
            weights: self.weights.to_host(self.exchanger.backend),
        });
        Ok(TrainOutcome {
            n_epochs,
            best_epoch: best.epoch,
            best: best.scores,
            last: last.unwrap_or(nothing),
            weights: best.weights,
            fp32_bytes_per_epoch,
            setup_bytes: self.setup_bytes,
            eval_bytes: self.eval_bytes,
        })
    }
}

/// Bytes that one rank's exchanges of an epoch take in full precision.
fn fp32_bytes(model: &ModelConfig, (n_forward, n_backward): (usize, usize)) -> u64 {
    let codec = RowCodec::new(Width::F32);
    let layers = (0..model.n_layers()).filter(|&layer| is_exchanged(model, layer));
    let n_rows = n_forward + n_backward;
    layers.map(|layer| codec.message_bytes(n_rows, model.n_columns_in(layer)) as u64).sum()
}

/// The sum of a count over the ranks; `failed` says when it was taken.
fn sum_u64<C: Communicator>(
    comm: &mut C,
    value: u64,
    failed: impl FnOnce(CommError) -> TrainError,
) -> Result<u64, TrainError> {
    let all = comm.all_gather(&value.to_le_bytes()).map_err(failed)?;
    let mut sum = 0;
    for (peer, bytes) in all.iter().enumerate() {
        let word = bytes.first_chunk::<8>().ok_or_else(|| {
            let (rank, what) = (comm.rank(), "counts");
            TrainError::Damaged { rank, peer, what }
        })?;
        sum += u64::from_le_bytes(*word);
    }
    Ok(sum)
}
