//! Full-precision forward passes: evaluation and prediction.

use sylvie_comm::{Communicator, Purpose};
use sylvie_gnn::{Metric, MetricCounts, ModelConfig, Network, Targets, Weights};
use sylvie_graph::Role;
use sylvie_lowbit::{RowCodec, Width};
use sylvie_tensor::Wire;

use crate::clock::Clock;
use crate::epoch::{Flow, Pace, Stage};
use crate::error::TrainError;
use crate::exchange::Exchanger;
use crate::part_data::PartData;
use crate::policy::ExchangePolicy;
use crate::record::RankEpoch;
use crate::schedule::plan_forward;

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

/// A full-precision forward pass.
pub(crate) fn evaluation_pace<'a, B: Wire>(
    network: &'a Network,
    weights: &'a Weights<B>,
    stage: &'a Stage<B>,
    epoch: u32,
) -> Pace<'a, B> {
    let policy = ExchangePolicy::uniform(RowCodec::new(Width::F32));
    Pace { network, weights, stage, epoch, purpose: Purpose::Evaluation, policy }
}

/// Logits of the own rows, row-major on the host; all finite.
pub(crate) fn forward_logits<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    exchanger: &mut Exchanger<'_, B, C>,
    pace: Pace<'_, B>,
    data: &PartData,
) -> Result<Vec<f32>, TrainError> {
    let targets = Targets::new(exchanger.backend, &data.labels, &[]);
    let mut flow = Flow::default();
    let mut rank = RankEpoch::default();
    for step in plan_forward(pace.network.config()) {
        flow.run(pace, step, exchanger, &targets, &mut rank)?;
    }
    let logits = exchanger.backend.download(flow.output());
    let width = data.labels.n_classes().max(1) as usize;
    match logits.iter().position(|logit| !logit.is_finite()) {
        None => Ok(logits),
        Some(at) => {
            let (rank, node) = (exchanger.comm.rank(), data.graph.own_ids[at / width]);
            Err(TrainError::OutputNotFinite { epoch: pace.epoch, rank, node })
        }
    }
}

/// Scores of `logits`, counted on all ranks.
pub(crate) fn score<C: Communicator>(
    comm: &mut C,
    epoch: u32,
    metric: Metric,
    logits: &[f32],
    data: &PartData,
) -> Result<Scores, TrainError> {
    let mut values = [None; 3];
    for (role, value) in [Role::Train, Role::Val, Role::Test].into_iter().zip(&mut values) {
        let counts = MetricCounts::new(metric, logits, &data.labels, &data.rows(role));
        let all = comm.all_gather(&counts.to_bytes());
        let all = all.map_err(|source| TrainError::Comm { epoch, source })?;
        let mut sum = MetricCounts::new(metric, logits, &data.labels, &[]);
        for (peer, bytes) in all.iter().enumerate() {
            if !sum.merge_bytes(bytes) {
                let (rank, what) = (comm.rank(), "scores");
                return Err(TrainError::Damaged { rank, peer, what });
            }
        }
        *value = sum.value();
    }
    let [train, val, test] = values;
    Ok(Scores { train, val, test })
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
    (model, weights): (&ModelConfig, &[Vec<f32>]),
    data: &PartData,
    clock: &dyn Clock,
) -> Result<Vec<f32>, TrainError> {
    let network = Network::new(model.clone())?;
    let weights = Weights::from_host(backend, model, weights);
    let stage = Stage::new(backend, comm, model, data, 0)?;
    let mut exchanger = Exchanger::new(backend, comm, clock, 0);
    forward_logits(&mut exchanger, evaluation_pace(&network, &weights, &stage, 0), data)
}

/// Scores of given weights on all ranks' parts, and the own rows' logits.
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
    clock: &dyn Clock,
) -> Result<Scores, TrainError> {
    let logits = predict(backend, comm, model, data, clock)?;
    score(comm, 0, metric, &logits, data)
}
