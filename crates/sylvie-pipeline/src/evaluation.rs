//! Full-precision forward passes: evaluation and prediction.

use std::borrow::Cow;
use std::sync::Arc;

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{Metric, MetricCounts, ModelConfig, Network, Targets, Weights};
use sylvie_graph::Role;
use sylvie_random::Pass;
use sylvie_tensor::Wire;

use crate::communication::{CommHandle, CommNeeds, with_communication};
use crate::error::TrainError;
use crate::flow::Flow;
use crate::instruments::{Activity, Instruments, Lane, Watch};
use crate::pace::Pace;
use crate::part_data::PartData;
use crate::policy::{ExchangePolicy, HaloRows, Memory};
use crate::schedule::{Stage as Third, Step, plan_forward};
use crate::slots::Slots;
use crate::stage::Stage;

/// The metric on each set; `None` where it is not defined, as the ROC-AUC of one outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// On training nodes.
    pub train: Option<f64>,
    /// On validation nodes.
    pub val: Option<f64>,
    /// On test nodes.
    pub test: Option<f64>,
}

/// What a network gives for the own rows of a part, row-major on the host; all finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Output of the last layer, `n_local x n_classes`.
    pub logits: Vec<f32>,
    /// What the last layer reads of its own rows: output of the layer before it, after LayerNorm and
    /// ReLU; `n_local` times the columns that the last layer reads. For a network of one layer nothing.
    pub embeddings: Vec<f32>,
}

/// Logits of the own rows, scored on all ranks.
pub(crate) fn forward_scores<B: Wire>(
    pace: Pace<'_, B>,
    (handle, slots): (&CommHandle<B>, &mut Slots<B>),
    metric: Metric,
    data: &PartData,
    watch: Watch<'_>,
) -> Result<Scores, TrainError> {
    let logits = forward(pace, (handle, slots), data, watch, &mut |_, _| ())?;
    score(handle, pace.epoch, metric, &finite(pace, handle, data, &logits)?, data)
}

/// Logits of the own rows; `look` is shown each layer's output when it is there.
fn forward<B: Wire>(
    pace: Pace<'_, B>,
    (handle, slots): (&CommHandle<B>, &mut Slots<B>),
    data: &PartData,
    watch: Watch<'_>,
    look: &mut dyn FnMut(usize, &B::Matrix),
) -> Result<Arc<B::Matrix>, TrainError> {
    let targets = Targets::new(pace.backend, &data.labels, &[]);
    let mut flow = Flow::default();
    let n_parts = handle.size() as u32;
    for step in plan_forward(pace.network.config(), pace.policy.memory, n_parts) {
        let start = watch.now();
        flow.run(pace, step, (handle, slots), &targets, watch)?;
        watch.note(Lane::Compute, Activity::Step(step), (pace.purpose, pace.epoch), start);
        if let Step::Compute(layer, Pass::Forward, Third::Finish) = step {
            look(layer, flow.output());
        }
    }
    Ok(flow.into_output())
}

/// Logits on the host, all of which are finite.
fn finite<'a, B: Wire>(
    pace: Pace<'_, B>,
    handle: &CommHandle<B>,
    data: &PartData,
    logits: &'a B::Matrix,
) -> Result<Cow<'a, [f32]>, TrainError> {
    let values = pace.backend.host_values(logits);
    let width = data.labels.n_classes().max(1) as usize;
    check_finite(&values, width, (handle.rank(), pace.epoch), data)?;
    Ok(values)
}

fn check_finite(
    values: &[f32],
    width: usize,
    (rank, epoch): (usize, u32),
    data: &PartData,
) -> Result<(), TrainError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let node = data.graph.own_ids[at / width];
            Err(TrainError::OutputNotFinite { epoch, rank, node })
        }
    }
}

/// Scores of `logits`, counted on all ranks.
fn score<B: Wire>(
    handle: &CommHandle<B>,
    epoch: u32,
    metric: Metric,
    logits: &[f32],
    data: &PartData,
) -> Result<Scores, TrainError> {
    let mut values = [None; 3];
    for (role, value) in [Role::Train, Role::Val, Role::Test].into_iter().zip(&mut values) {
        let counts = MetricCounts::new(metric, logits, &data.labels, &data.rows(role));
        let all = handle.all_gather(epoch, counts.to_bytes())?;
        let mut sum = MetricCounts::new(metric, logits, &data.labels, &[]);
        for (peer, bytes) in all.iter().enumerate() {
            if !sum.merge_bytes(bytes) {
                let (rank, what) = (handle.rank(), "scores");
                return Err(TrainError::Damaged { rank, peer, what });
            }
        }
        *value = sum.value();
    }
    let [train, val, test] = values;
    Ok(Scores { train, val, test })
}

/// Runs a forward pass of given weights, then `then` on what it gives.
fn with_prediction<B, C, T>(
    (backend, comm): (&B, &mut C),
    (model, weights): (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    instruments: Instruments<'_>,
    then: impl FnOnce(&CommHandle<B>, Prediction) -> Result<T, TrainError> + Send,
) -> Result<T, TrainError>
where
    B: Wire,
    C: Communicator<Buffer = B::Bytes>,
    T: Send,
{
    let network = Network::new(model.clone())?;
    let weights = Weights::from_host(backend, model, weights);
    let stage = Arc::new(Stage::new(backend, comm, model, data, 0)?);
    let watch = Watch::new(instruments, comm.rank());
    let n_layers = model.n_layers();
    let (n_slots, memory) = (Slots::<B>::count(n_layers), Memory::All);
    let needs = CommNeeds { seed: 0, n_slots, halo: HaloRows::F32, memory, is_alike: true };
    with_communication((backend, comm), instruments, needs, |handle| {
        let (purpose, policy) = (Purpose::Evaluation, ExchangePolicy::full_precision());
        let pace = Pace {
            backend,
            network: &network,
            weights: &weights,
            stage: &stage,
            policy: &policy,
            seed: 0,
            epoch: 0,
            purpose,
            sample: None,
        };
        let mut slots = Slots::new(n_layers);
        let mut embeddings = Vec::new();
        let mut look = |layer: usize, rows: &B::Matrix| {
            if layer + 2 == n_layers {
                embeddings = backend.download(rows);
            }
        };
        let logits = forward(pace, (handle, &mut slots), data, watch, &mut look)?;
        let logits = finite(pace, handle, data, &logits)?.into_owned();
        let width = model.n_columns_in(n_layers - 1);
        check_finite(&embeddings, width, (handle.rank(), 0), data)?;
        then(handle, Prediction { logits, embeddings })
    })
}

/// Logits of the own rows of `data` under given weights, and what the last layer made them of.
///
/// Collective: every rank calls it with its own part.
///
/// # Errors
/// A failing transport; values that are not finite; GCN on a directed graph.
/// # Panics
/// If `data` is not this rank's part, or does not fit the network.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use sylvie_comm::{Communicator, ThreadOptions, run_ranks};
/// use sylvie_gnn::{ModelConfig, ModelKind, Weights};
/// use sylvie_pipeline::{Instruments, PartData, Prediction, RankInput, predict};
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
/// // `inputs` are two parts of eight nodes each. Weights come from `TrainOutcome`, or are these:
/// let model = ModelConfig::new(ModelKind::Sage, vec![2, 6, 2]);
/// let backend = CpuBackend::new(1);
/// let weights = Weights::glorot(&backend, &model, 7).to_host(&backend);
/// let predictions = run_ranks(2, &ThreadOptions::default(), |comm| {
///     let (backend, data) = (CpuBackend::new(1), &inputs[comm.rank()].training);
///     let clock = || Duration::ZERO;
///     predict(&backend, comm, (&model, &weights), data, Instruments::clock(&clock))
/// })?;
/// let Prediction { logits, embeddings } = &predictions[0];
/// assert_eq!((logits.len(), embeddings.len()), (8 * 2, 8 * 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn predict<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    model: (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    instruments: Instruments<'_>,
) -> Result<Prediction, TrainError> {
    with_prediction((backend, comm), model, data, instruments, |_, prediction| Ok(prediction))
}

/// Scores of given weights on all ranks' parts.
///
/// Collective: every rank calls it with its own part.
///
/// # Errors
/// A failing transport; values that are not finite; GCN on a directed graph.
/// # Panics
/// If `data` is not this rank's part, or does not fit the network.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use sylvie_comm::{Communicator, ThreadOptions, run_ranks};
/// use sylvie_gnn::{Metric, ModelConfig, ModelKind};
/// use sylvie_pipeline::{Instruments, PartData, RankInput, Scores, evaluate};
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
/// // The first of two features is the class, and these weights of a layer ask no neighbour.
/// let model = ModelConfig::new(ModelKind::Sage, vec![2, 2]);
/// let weights = vec![vec![-2.0, 2.0, 0.0, 0.0], vec![0.0; 4], vec![1.0, -1.0]];
/// let scores = run_ranks(2, &ThreadOptions::default(), |comm| {
///     let (backend, data) = (CpuBackend::new(1), &inputs[comm.rank()].training);
///     let clock = || Duration::ZERO;
///     let instruments = Instruments::clock(&clock);
///     evaluate(&backend, comm, (&model, &weights), data, Metric::Accuracy, instruments)
/// })?;
/// let all = Some(1.0);
/// assert_eq!(scores, [Scores { train: all, val: all, test: all }; 2]); // of all parts, on each rank
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    model: (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    metric: Metric,
    instruments: Instruments<'_>,
) -> Result<Scores, TrainError> {
    with_prediction((backend, comm), model, data, instruments, |handle, prediction| {
        score(handle, 0, metric, &prediction.logits, data)
    })
}
