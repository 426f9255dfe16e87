//! The steps of an epoch, as data.

use std::fmt;

use sylvie_gnn::ModelConfig;
use sylvie_random::Pass;

/// One step of a rank. Layers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Encode the rows that a layer's pass exchanges, and send them.
    Start(usize, Pass),
    /// Wait for the rows of that exchange and decode them.
    Finish(usize, Pass),
    /// Compute a layer.
    Compute(usize, Pass),
    /// Loss and its gradient.
    Loss,
    /// Sum the weight gradients over the ranks.
    Reduce,
    /// One optimiser step.
    Update,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(layer, pass) => write!(f, "start {} {layer}", pass.name()),
            Self::Finish(layer, pass) => write!(f, "finish {} {layer}", pass.name()),
            Self::Compute(layer, pass) => write!(f, "compute {} {layer}", pass.name()),
            Self::Loss => f.write_str("loss"),
            Self::Reduce => f.write_str("reduce"),
            Self::Update => f.write_str("update"),
        }
    }
}

/// Whether the rows that `layer` reads are exchanged: graph layers after the first.
#[must_use]
pub(crate) fn is_exchanged(model: &ModelConfig, layer: usize) -> bool {
    layer > 0 && model.is_graph_layer(layer)
}

/// The steps of a forward pass.
#[must_use]
pub fn plan_forward(model: &ModelConfig) -> Vec<Step> {
    let mut steps = Vec::new();
    for layer in 0..model.n_layers() {
        if is_exchanged(model, layer) {
            steps.push(Step::Start(layer, Pass::Forward));
            steps.push(Step::Finish(layer, Pass::Forward));
        }
        steps.push(Step::Compute(layer, Pass::Forward));
    }
    steps
}

/// The steps of a synchronous training epoch.
///
/// # Paper
/// Algorithms 1 and 2, without the exchange of layer 1: raw features are exchanged once.
#[must_use]
pub fn plan_epoch(model: &ModelConfig) -> Vec<Step> {
    let mut steps = plan_forward(model);
    steps.push(Step::Loss);
    for layer in (0..model.n_layers()).rev() {
        steps.push(Step::Compute(layer, Pass::Backward));
        if is_exchanged(model, layer) {
            steps.push(Step::Start(layer, Pass::Backward));
            steps.push(Step::Finish(layer, Pass::Backward));
        }
    }
    steps.push(Step::Reduce);
    steps.push(Step::Update);
    steps
}
