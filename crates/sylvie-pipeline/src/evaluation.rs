//! Full-precision forward passes: evaluation and prediction.

use std::sync::Arc;

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{Metric, MetricCounts, ModelConfig, Network, Targets, Weights};
use sylvie_graph::Role;
use sylvie_tensor::Wire;

use crate::communication::{CommHandle, CommNeeds, with_communication};
use crate::error::TrainError;
use crate::flow::Flow;
use crate::instruments::{Activity, Instruments, Lane, Watch};
use crate::pace::Pace;
use crate::part_data::PartData;
use crate::policy::{ExchangePolicy, Memory};
use crate::schedule::plan_forward;
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

/// Logits of the own rows, row-major on the host; all finite.
pub(crate) fn forward_logits<B: Wire>(
    pace: Pace<'_, B>,
    (handle, slots): (&CommHandle<B>, &mut Slots<B>),
    data: &PartData,
    watch: Watch<'_>,
) -> Result<Vec<f32>, TrainError> {
    let targets = Targets::new(pace.backend, &data.labels, &[]);
    let mut flow = Flow::default();
    let n_parts = handle.size() as u32;
    for step in plan_forward(pace.network.config(), pace.policy.memory, n_parts) {
        let start = watch.now();
        flow.run(pace, step, (handle, slots), &targets, watch)?;
        watch.note(Lane::Compute, Activity::Step(step), (pace.purpose, pace.epoch), start);
    }
    let logits = pace.backend.download(flow.output());
    let width = data.labels.n_classes().max(1) as usize;
    match logits.iter().position(|logit| !logit.is_finite()) {
        None => Ok(logits),
        Some(at) => {
            let (rank, node) = (handle.rank(), data.graph.own_ids[at / width]);
            Err(TrainError::OutputNotFinite { epoch: pace.epoch, rank, node })
        }
    }
}

/// Scores of `logits`, counted on all ranks.
pub(crate) fn score<B: Wire>(
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

/// Runs a forward pass of given weights, then `then` on its logits.
fn with_logits<B, C, T>(
    (backend, comm): (&B, &mut C),
    (model, weights): (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    instruments: Instruments<'_>,
    then: impl FnOnce(&CommHandle<B>, Vec<f32>) -> Result<T, TrainError> + Send,
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
    let needs = CommNeeds { seed: 0, n_slots, memory };
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
        let logits = forward_logits(pace, (handle, &mut slots), data, watch)?;
        then(handle, logits)
    })
}

/// Logits of the own rows of `data` under given weights, `n_local x n_classes` row-major.
///
/// Collective: every rank calls it with its own part.
///
/// # Errors
/// A failing transport; values that are not finite; GCN on a directed graph.
/// # Panics
/// If `data` is not this rank's part, or does not fit the network.
pub fn predict<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    model: (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    instruments: Instruments<'_>,
) -> Result<Vec<f32>, TrainError> {
    with_logits((backend, comm), model, data, instruments, |_, logits| Ok(logits))
}

/// Scores of given weights on all ranks' parts.
///
/// Collective: every rank calls it with its own part.
///
/// # Errors
/// A failing transport; values that are not finite; GCN on a directed graph.
/// # Panics
/// If `data` is not this rank's part, or does not fit the network.
pub fn evaluate<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    model: (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    metric: Metric,
    instruments: Instruments<'_>,
) -> Result<Scores, TrainError> {
    with_logits((backend, comm), model, data, instruments, |handle, logits| {
        score(handle, 0, metric, &logits, data)
    })
}
