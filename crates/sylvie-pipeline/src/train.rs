//! One rank's training run.

mod checkpoints;
mod epoch;
mod objective;
mod outcome;
mod resume;

use std::borrow::Cow;
use std::sync::Arc;

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{Adam, Gradients, ModelConfig, Network, Weights};
use sylvie_lowbit::{RowCodec, Width};
use sylvie_tensor::Wire;

use crate::communication::{CommHandle, CommNeeds, with_communication};
use crate::error::TrainError;
use crate::evaluation::{Scores, forward_scores};
use crate::flow::Flow;
use crate::instruments::{Instruments, Watch};
use crate::pace::Pace;
use crate::part_data::RankInput;
use crate::policy::ExchangePolicy;
use crate::record::{EpochRecord, Observer};
use crate::schedule::is_exchanged;
use crate::settings::TrainSettings;
use crate::slots::Slots;
use crate::stage::Stage;
use crate::state::BestModel;
use objective::{Objective, sum_before};

pub use checkpoints::Checkpoints;
pub use outcome::{End, TrainOutcome};

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
///
/// # Example
/// ```
/// use std::time::Instant;
/// use sylvie_comm::{Communicator, ThreadOptions, run_ranks};
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_partition::build_parts;
/// use sylvie_pipeline::{
///     End, EpochRecord, Instruments, PartData, Preset, RankInput, TrainError, TrainOutcome,
///     TrainSettings, train,
/// };
/// use sylvie_tensor::CpuBackend;
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// # use sylvie_partition::{Contiguous, Partitioner};
///
/// // The data set: two rings of eight nodes, joined by an edge. A ring is a class, and a part.
/// # let ring = |first: u32| (0..8).map(move |i| (first + i, first + (i + 1) % 8));
/// # let edges: Vec<(u32, u32)> = ring(0).chain(ring(8)).chain([(0, 8)]).collect();
/// # let (graph, cleaning) = clean_edges(16, &edges, Direction::Symmetric)?;
/// # let features = (0..16_u8).flat_map(|node| [f32::from(node / 8), 0.1 * f32::from(node)]).collect();
/// # let roles = [Role::Train, Role::Val, Role::Test];
/// # let dataset = Dataset {
/// #     name: "rings".to_owned(),
/// #     direction: Direction::Symmetric,
/// #     cleaning,
/// #     features: Features::Dense(DenseMatrix::new(16, 2, features)?),
/// #     labels: Labels::single(2, (0..16).map(|node| node / 8).collect())?,
/// #     split: Split::new((0..16).map(|node| roles[node % 3]).collect()),
/// #     graph,
/// # };
/// # let assignment = Contiguous.partition(&dataset.graph, &[true; 16], 2)?;
/// let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
/// let inputs: Vec<RankInput> =
///     parts.map(|part| RankInput::transductive(PartData::gather(&dataset, part))).collect();
///
/// let model = ModelConfig { dropout: 0.0, ..ModelConfig::new(ModelKind::Sage, vec![2, 8, 2]) };
/// let policy = Preset::SylvieS.policy();
/// let settings =
///     TrainSettings { n_epochs: 20, learning_rate: 0.05, ..TrainSettings::new(model, policy) };
/// let start = Instant::now();
/// let clock = || start.elapsed();
/// let outcomes = run_ranks(2, &ThreadOptions::default(), |comm| {
///     let (backend, input) = (CpuBackend::new(1), &inputs[comm.rank()]);
///     let mut losses = Vec::new();
///     let mut observer = |record: &EpochRecord| {
///         losses.push(record.loss);
///         Ok(())
///     };
///     let instruments = Instruments::clock(&clock);
///     let outcome = train(&backend, comm, input, &settings, instruments, &mut observer)?;
///     Ok::<_, TrainError>((outcome, losses))
/// })?;
///
/// let (outcome, losses): &(TrainOutcome, Vec<f64>) = &outcomes[0];
/// assert_eq!((outcome.end, outcome.n_epochs), (End::Complete, 20));
/// assert!(losses[19] < losses[0]);
/// assert!(outcome.best.test > Some(0.5)); // chance
/// assert_eq!(outcomes[0], outcomes[1]); // every rank knows the same
/// // Nodes 0 and 8 are read across: a row of 8 values each way, for each of them.
/// assert_eq!(outcome.fp32_bytes_per_epoch, 2 * 2 * 8 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// As [`train`], from a checkpoint or with checkpoints: a run that goes on from a state gives the bits
/// of one that never stopped.
///
/// # Errors
/// As [`train`]; a state that is not of such a run; a sink that cannot keep one.
/// # Panics
/// As [`train`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use sylvie_comm::{Communicator, ThreadOptions, run_ranks};
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{
///     BestModel, CheckpointSink, Checkpoints, EpochRecord, HaloState, HostRows, Instruments,
///     KeptRows, ObserverError, PartData, Preset, RankInput, RankState, SharedState, TrainError,
///     TrainSettings, train_with_checkpoints,
/// };
/// use sylvie_tensor::CpuBackend;
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// # use sylvie_partition::{Contiguous, Partitioner};
/// # let ring = |first: u32| (0..8).map(move |i| (first + i, first + (i + 1) % 8));
/// # let edges: Vec<(u32, u32)> = ring(0).chain(ring(8)).chain([(0, 8)]).collect();
/// # let (graph, cleaning) = clean_edges(16, &edges, Direction::Symmetric)?;
/// # let features = (0..16_u8).flat_map(|node| [f32::from(node / 8), 0.1 * f32::from(node)]).collect();
/// # let roles = [Role::Train, Role::Val, Role::Test];
/// # let dataset = Dataset {
/// #     name: "rings".to_owned(),
/// #     direction: Direction::Symmetric,
/// #     cleaning,
/// #     features: Features::Dense(DenseMatrix::new(16, 2, features)?),
/// #     labels: Labels::single(2, (0..16).map(|node| node / 8).collect())?,
/// #     split: Split::new((0..16).map(|node| roles[node % 3]).collect()),
/// #     graph,
/// # };
/// # let assignment = Contiguous.partition(&dataset.graph, &[true; 16], 2)?;
/// # let parts = sylvie_partition::build_parts(&dataset.graph, &assignment, None).into_iter();
/// # let gather = |part| RankInput::transductive(PartData::gather(&dataset, part));
/// # let inputs: Vec<RankInput> = parts.map(gather).collect();
///
/// /// Keeps the newest state in memory.
/// #[derive(Default)]
/// struct Newest(Option<RankState>);
///
/// impl CheckpointSink for Newest {
///     fn store(&mut self, state: &RankState) -> Result<(), ObserverError> {
///         self.0 = Some(state.clone());
///         Ok(())
///     }
///
///     fn commit(&mut self, _: u32) -> Result<(), ObserverError> {
///         Ok(())
///     }
/// }
///
/// // `inputs` are the two parts of a graph, as for `train`.
/// let model = ModelConfig::new(ModelKind::Sage, vec![2, 8, 2]);
/// let run = |n_epochs: u32, states: &[RankState]| {
///     let policy = Preset::SylvieA.policy();
///     let settings = TrainSettings { n_epochs, ..TrainSettings::new(model.clone(), policy) };
///     run_ranks(2, &ThreadOptions::default(), |comm| {
///         let (backend, input) = (CpuBackend::new(1), &inputs[comm.rank()]);
///         let (mut sink, resume) = (Newest::default(), states.get(comm.rank()).cloned());
///         let checkpoints =
///             Checkpoints { resume, sink: Some(&mut sink), every: Some(5), ..Checkpoints::none() };
///         let mut observer = |_: &EpochRecord| Ok(());
///         let clock = || Duration::ZERO;
///         let outcome = train_with_checkpoints(
///             &backend,
///             comm,
///             input,
///             &settings,
///             Instruments::clock(&clock),
///             &mut observer,
///             checkpoints,
///         )?;
///         Ok::<_, TrainError>((outcome, sink.0))
///     })
/// };
///
/// let whole = run(10, &[])?;
/// let first_half = run(5, &[])?;
/// let states: Vec<RankState> = first_half.into_iter().filter_map(|(_, state)| state).collect();
/// let second_half = run(10, &states)?;
/// assert_eq!(second_half[0].0.weights, whole[0].0.weights); // bit for bit
///
/// // What is the same on every rank, and what rank 0 keeps of the row that it reads of layer 1.
/// let RankState { shared: SharedState { n_epochs, best, .. }, halo } = &states[0];
/// assert_eq!(*n_epochs, 5);
/// assert!(best.as_ref().is_some_and(|BestModel { epoch, .. }| *epoch < 5));
/// let HaloState { kept, .. } = halo;
/// let Some(KeptRows::Halo { blocks, .. }) = &kept[3] else { panic!("no halo rows are kept") };
/// let HostRows { n_rows, n_cols, .. } = &blocks[0].1;
/// assert_eq!((*n_rows, *n_cols), (1, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    let (halo, memory) = (settings.halo_rows(), policy.memory);
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
        settings.check()?;
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
        let exchange = (handle, &mut self.slots);
        let scores = forward_scores(pace, exchange, self.settings.metric, data, self.watch)?;
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
