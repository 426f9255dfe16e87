//! One rank's training run.

mod objective;
mod resume;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{Adam, Gradients, ModelConfig, Network, Weights};
use sylvie_lowbit::{RowCodec, Width};
use sylvie_tensor::Wire;

use crate::communication::{CommHandle, CommNeeds, with_communication};
use crate::error::TrainError;
use crate::evaluation::{Scores, forward_logits, score};
use crate::flow::{Flow, Stops};
use crate::instruments::{Activity, Instruments, Lane, Watch};
use crate::pace::Pace;
use crate::part_data::RankInput;
use crate::policy::ExchangePolicy;
use crate::record::{EpochRecord, Observer, RankEpoch, combine};
use crate::sample::Sample;
use crate::schedule::{Step, is_exchanged, plan_epoch};
use crate::settings::TrainSettings;
use crate::slots::Slots;
use crate::stage::Stage;
use crate::state::{BestModel, CheckpointSink, RankState};
use objective::{Objective, sum_before};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All epochs are done.
    Complete,
    /// The validation score had not become better for as long as the settings' patience.
    Patience,
    /// A rank was asked to stop.
    Stopped,
}

/// What a run ends with; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOutcome {
    /// Why the run ended.
    pub end: End,
    /// Epochs trained, those before a resumed run's checkpoint included.
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
    /// Bytes that one epoch takes when every boundary row goes each way once in full precision, over all
    /// ranks.
    pub fp32_bytes_per_epoch: u64,
    /// Bytes sent for raw features before the first epoch, over all ranks.
    pub setup_bytes: u64,
    /// Bytes sent for all evaluations, over all ranks.
    pub eval_bytes: u64,
}

/// Trains one rank's part; every rank calls it with the same settings and its own `input`.
///
/// The calling thread serves the communicator; a thread beside it computes. `observer` is told of each
/// epoch on every rank; an error from it ends the run. An input that is given away is freed as far as it
/// is not needed any more, once it is on the backend: its features and edges.
///
/// # Errors
/// Everything that ends a run early; the caller then aborts its communicator.
/// # Panics
/// If `input` is not this rank's part, or does not fit the network.
/// # Paper
/// Algorithms 1 and 2.
pub fn train<'i, B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    input: impl Into<Cow<'i, RankInput>>,
    settings: &TrainSettings,
    instruments: Instruments<'_>,
    observer: &mut dyn Observer,
) -> Result<TrainOutcome, TrainError> {
    let run = Run::new(backend, comm, input.into(), settings, instruments)?;
    let checkpoints = Checkpoints::none();
    with_communication((backend, comm), instruments, comm_needs::<B>(settings), |handle| {
        run.train(handle, observer, checkpoints)
    })
}

/// Where a run begins, where its states go, and who may stop it; on one rank.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// The state to go on from; the run's beginning where there is none. All ranks go on from the same
    /// epoch.
    pub resume: Option<RankState>,
    /// Where states go, on all ranks or on none.
    pub sink: Option<&'a mut dyn CheckpointSink>,
    /// Epochs from one state to the next, the same on every rank; the last epoch's is kept too. Without,
    /// a state is kept where the run is stopped, and at the end of one that was resumed.
    pub every: Option<u32>,
    /// Set while the run goes on, it ends after the epoch: all ranks do, whichever was asked to.
    pub stop: Option<&'a AtomicBool>,
}

impl Checkpoints<'_> {
    /// From the beginning to the end, and nothing is kept.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Checkpoints<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints")
            .field("resumes", &self.resume.is_some())
            .field("keeps", &self.sink.is_some())
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// As [`train`], from a checkpoint or with checkpoints: a run that goes on from a state gives the bits
/// of one that never stopped.
///
/// # Errors
/// As [`train`]; a state that is not of such a run; a sink that cannot keep one.
/// # Panics
/// As [`train`].
pub fn train_with_checkpoints<'i, B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    input: impl Into<Cow<'i, RankInput>>,
    settings: &TrainSettings,
    instruments: Instruments<'_>,
    observer: &mut dyn Observer,
    checkpoints: Checkpoints<'_>,
) -> Result<TrainOutcome, TrainError> {
    let run = Run::new(backend, comm, input.into(), settings, instruments)?;
    with_communication((backend, comm), instruments, comm_needs::<B>(settings), |handle| {
        run.train(handle, observer, checkpoints)
    })
}

/// What the run of these settings asks of its communication thread.
pub(crate) fn comm_needs<B: Wire>(settings: &TrainSettings) -> CommNeeds {
    let n_slots = Slots::<B>::count(settings.model.n_layers());
    let policy = &settings.exchange;
    let full = RowCodec::new(Width::F32);
    let is_full = policy.forward.iter().chain(&policy.backward).all(|codec| *codec == full);
    let is_alike = is_full && policy.boundary_sampling.is_none();
    let (halo, memory) = (policy.halo, policy.memory);
    CommNeeds { seed: settings.seed, n_slots, halo, memory, is_alike }
}

/// A run's state on the compute thread of one rank.
pub(crate) struct Run<'a, B: Wire> {
    backend: &'a B,
    /// With the sums over neighbours that training takes.
    summing: B,
    watch: Watch<'a>,
    settings: &'a TrainSettings,
    input: Cow<'a, RankInput>,
    network: Network,
    training: Arc<Stage<B>>,
    evaluation: Option<Arc<Stage<B>>>,
    evaluation_policy: ExchangePolicy,
    objective: Objective<B>,
    weights: Weights<B>,
    adam: Adam<B>,
    flow: Flow<B>,
    slots: Slots<B>,
    /// Gradients of the layers that went back, the last layer first.
    going_back: Vec<Vec<B::Matrix>>,
    /// Vectors of weight gradients that came back summed, to be filled again.
    spare: Vec<Vec<f32>>,
    /// Reduced gradients of the epoch.
    pub(crate) gradients: Option<Gradients<B>>,
    best: Option<BestModel>,
    /// Scores of the last evaluation.
    last: Option<Scores>,
    n_since_best: u32,
    setup_bytes: u64,
    eval_bytes: u64,
}

impl<'a, B: Wire> Run<'a, B> {
    pub(crate) fn new<C: Communicator<Buffer = B::Bytes>>(
        backend: &'a B,
        comm: &mut C,
        mut input: Cow<'a, RankInput>,
        settings: &'a TrainSettings,
        instruments: Instruments<'a>,
    ) -> Result<Self, TrainError> {
        let model = &settings.model;
        let network = Network::new(model.clone())?;
        settings.exchange.check(model)?;
        let gather = settings.gather;
        let summing = backend.gathering(gather).ok_or(TrainError::Gather { gather })?;
        let training = Stage::new(backend, comm, model, &input.training, 0)?;
        let evaluation = match &input.evaluation {
            Some(data) => Some(Arc::new(Stage::new(backend, comm, model, data, 1)?)),
            None => None,
        };
        if let Cow::Owned(input) = &mut input {
            input.let_go();
        }
        let objective = Objective::new(backend, comm, &input.training, &settings.class_weights)?;
        let setup = comm.take_traffic().of_purpose(Purpose::Setup).total_bytes();
        let setup_bytes = sum_before(comm, setup)?;
        let weights = match &settings.initial_weights {
            Some(tensors) => Weights::from_host(backend, model, tensors),
            None => Weights::glorot(backend, model, settings.seed),
        };
        // What gathering these sums sent is no traffic of the first epoch.
        comm.take_traffic();
        let memory = settings.exchange.memory;
        Ok(Self {
            adam: Adam::new(backend, model, settings.learning_rate, settings.weight_decay),
            backend,
            summing,
            watch: Watch::new(instruments, comm.rank()),
            settings,
            input,
            network,
            training: Arc::new(training),
            evaluation,
            evaluation_policy: ExchangePolicy { memory, ..ExchangePolicy::full_precision() },
            objective,
            weights,
            flow: Flow::default(),
            slots: Slots::new(model.n_layers()),
            going_back: Vec::new(),
            spare: Vec::new(),
            gradients: None,
            best: None,
            last: None,
            n_since_best: 0,
            setup_bytes,
            eval_bytes: 0,
        })
    }

    fn train(
        mut self,
        handle: &CommHandle<B>,
        observer: &mut dyn Observer,
        mut checkpoints: Checkpoints<'_>,
    ) -> Result<TrainOutcome, TrainError> {
        let settings = self.settings;
        let resumed = checkpoints.resume.take();
        let is_resumed = resumed.is_some();
        let first = resumed.map(|state| self.resume(handle, state)).transpose()?.unwrap_or(0);
        if is_resumed && settings.patience.is_some_and(|patience| self.n_since_best >= patience) {
            return self.outcome(handle, first, End::Patience);
        }
        for epoch in first..settings.n_epochs {
            let mut record = self.epoch(handle, epoch, checkpoints.stop)?;
            let is_last = epoch + 1 == settings.n_epochs;
            let is_due = is_last || (epoch + 1).is_multiple_of(settings.eval_every.max(1));
            if is_due {
                self.evaluate(handle, epoch, &mut record)?;
            }
            observer.epoch(&record).map_err(|source| TrainError::Observer { epoch, source })?;
            self.last = record.scores.or(self.last);
            let is_patient = settings.patience.is_none_or(|patience| self.n_since_best < patience);
            let end = match (is_last, is_due && !is_patient, record.is_stopping) {
                (true, ..) => Some(End::Complete),
                (_, true, _) => Some(End::Patience),
                (.., true) => Some(End::Stopped),
                _ => None,
            };
            let is_due = checkpoints.every.is_some_and(|every| (epoch + 1).is_multiple_of(every));
            let is_kept = match end {
                None => is_due,
                Some(End::Stopped) => true,
                // A state of earlier must not outlive the run's end.
                Some(_) => checkpoints.every.is_some() || is_resumed,
            };
            if let Some(sink) = &mut checkpoints.sink
                && is_kept
            {
                self.keep(handle, epoch, &mut **sink)?;
            }
            if let Some(end) = end {
                return self.outcome(handle, epoch + 1, end);
            }
        }
        self.outcome(handle, first.max(settings.n_epochs), End::Complete)
    }

    /// Trains one epoch.
    pub(crate) fn epoch(
        &mut self,
        handle: &CommHandle<B>,
        epoch: u32,
        stop: Option<&AtomicBool>,
    ) -> Result<EpochRecord, TrainError> {
        let start = self.watch.now();
        let policy = &self.settings.exchange;
        let model = self.network.config();
        let sample = policy.boundary_sampling.map(|probability| {
            let draw = (self.settings.seed, epoch);
            Arc::new(Sample::draw(self.backend, model, &self.training, probability, draw))
        });
        self.flow.stops = Stops::default();
        for step in plan_epoch(model, policy, handle.size() as u32, epoch) {
            let start = self.watch.now();
            self.step(handle, epoch, step, sample.as_ref())?;
            let when = (Purpose::Training, epoch);
            self.watch.note(Lane::Compute, Activity::Step(step), when, start);
        }
        let (traffic, comm) = handle.take_counts()?;
        // What left after the figures of the epoch before was counted there.
        let sent = traffic.sum(|tag| tag.purpose == Purpose::Training && tag.epoch == epoch);
        let rank = RankEpoch {
            loss_sum: self.flow.loss_sum,
            epoch: self.watch.now().saturating_sub(start),
            stops: self.flow.stops,
            comm,
            payload_bytes: sent.payload_bytes,
            metadata_bytes: sent.metadata_bytes,
            messages: sent.n_messages,
            reduce_bytes: traffic.reduced.n_bytes,
            // As late as can be: what comes now ends the run after this epoch and not after the next.
            is_stopping: stop.is_some_and(|stop| stop.load(Ordering::Relaxed)),
        };
        let ranks = handle.all_gather(epoch, rank.to_bytes())?;
        let record = combine(epoch, &ranks, self.objective.divisor).map_err(|peer| {
            let (rank, what) = (handle.rank(), "epoch figures");
            TrainError::Damaged { rank, peer, what }
        })?;
        if !record.loss.is_finite() {
            return Err(TrainError::NotFinite { epoch, loss: record.loss });
        }
        Ok(record)
    }

    fn step(
        &mut self,
        handle: &CommHandle<B>,
        epoch: u32,
        step: Step,
        sample: Option<&Arc<Sample<B>>>,
    ) -> Result<(), TrainError> {
        match step {
            Step::Reduce(layer) => self.reduce(handle, (epoch, layer)),
            Step::Collect => self.collect(handle),
            Step::Update => {
                let gradients = self.gradients.as_ref().expect("reduced gradients");
                self.adam.step(self.backend, gradients, &mut self.weights);
                Ok(())
            }
            step => {
                let pace = Pace {
                    backend: &self.summing,
                    network: &self.network,
                    weights: &self.weights,
                    stage: &self.training,
                    policy: &self.settings.exchange,
                    seed: self.settings.seed,
                    epoch,
                    purpose: Purpose::Training,
                    sample,
                };
                let exchange = (handle, &mut self.slots);
                self.flow.run(pace, step, exchange, &self.objective.targets, self.watch)
            }
        }
    }

    /// Starts to sum the gradients of the layer that went back last.
    fn reduce(&mut self, handle: &CommHandle<B>, of: (u32, usize)) -> Result<(), TrainError> {
        let tensors = self.flow.take_weight_gradients();
        let mut values = self.spare.pop().unwrap_or_default();
        values.clear();
        Gradients::append_layer(self.backend, &tensors, &mut values);
        self.going_back.push(tensors);
        handle.reduce(of, values)
    }

    /// Waits for the sums of all layers, and divides them by what the loss is divided by.
    fn collect(&mut self, handle: &CommHandle<B>) -> Result<(), TrainError> {
        let share = 1.0 / self.objective.divisor as f32;
        let mut layers = std::mem::take(&mut self.going_back);
        for tensors in &mut layers {
            let start = self.watch.now();
            let mut values = handle.reduced()?;
            self.flow.stops.reduce += self.watch.now().saturating_sub(start);
            values.iter_mut().for_each(|value| *value *= share);
            Gradients::assign_layer(self.backend, tensors, &values);
            self.spare.push(values);
        }
        layers.reverse();
        self.gradients = Some(Gradients::new(layers));
        Ok(())
    }

    fn evaluate(
        &mut self,
        handle: &CommHandle<B>,
        epoch: u32,
        record: &mut EpochRecord,
    ) -> Result<(), TrainError> {
        let start = self.watch.now();
        let data = self.input.evaluation.as_ref().unwrap_or(&self.input.training);
        let pace = Pace {
            backend: self.backend,
            network: &self.network,
            weights: &self.weights,
            stage: self.evaluation.as_ref().unwrap_or(&self.training),
            policy: &self.evaluation_policy,
            seed: self.settings.seed,
            epoch,
            purpose: Purpose::Evaluation,
            sample: None,
        };
        let logits = forward_logits(pace, (handle, &mut self.slots), data, self.watch)?;
        let scores = score(handle, epoch, self.settings.metric, &logits, data)?;
        let (traffic, _) = handle.take_counts()?;
        let sent = traffic.of_purpose(Purpose::Evaluation);
        record.eval_bytes = handle.sum(epoch, sent.total_bytes())?;
        record.eval_ms = self.watch.now().saturating_sub(start).as_secs_f64() * 1e3;
        record.scores = Some(scores);
        self.eval_bytes += record.eval_bytes;
        let is_better = match &self.best {
            None => true,
            // An undefined score is worse than any.
            Some(best) => scores.val.unwrap_or(-1.0) > best.scores.val.unwrap_or(-1.0),
        };
        if is_better {
            let weights = self.weights.to_host(self.backend);
            self.best = Some(BestModel { epoch, scores, weights });
            self.n_since_best = 0;
        } else {
            self.n_since_best += 1;
        }
        Ok(())
    }

    /// Waits for everything that this rank started: it may leave then.
    pub(crate) fn drain(&mut self, handle: &CommHandle<B>) -> Result<(), TrainError> {
        self.slots.drain_all(handle)
    }

    fn outcome(
        mut self,
        handle: &CommHandle<B>,
        n_epochs: u32,
        end: End,
    ) -> Result<TrainOutcome, TrainError> {
        self.drain(handle)?;
        let model = &self.settings.model;
        let own_bytes = fp32_bytes(model, self.training.plan.n_rows_sent());
        let last_epoch = n_epochs.saturating_sub(1);
        let fp32_bytes_per_epoch = handle.sum(last_epoch, own_bytes)?;
        let nothing = Scores { train: None, val: None, test: None };
        let best = self.best.unwrap_or_else(|| BestModel {
            epoch: 0,
            scores: nothing,
            weights: self.weights.to_host(self.backend),
        });
        Ok(TrainOutcome {
            end,
            n_epochs,
            best_epoch: best.epoch,
            best: best.scores,
            last: self.last.unwrap_or(nothing),
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
