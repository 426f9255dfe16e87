//! GCN, GraphSAGE and GAT with explicit forward and backward passes.
//!
//! A network is computed layer by layer, so that its caller can exchange halo rows in between, and a
//! layer block by block: [`Network::begin`] with the own rows, [`Network::add_block`] for each block
//! of halo rows, [`Network::finish`]. Nothing here knows ranks, epochs or precision.

mod config;
mod first_layer;
mod gat;
mod gcn;
mod input;
mod linear;
mod loss;
mod metrics;
mod network;
mod post;
#[cfg(test)]
mod reference;
mod sage;
mod structure;
mod weights;

pub use config::{ConfigError, ModelConfig, ModelKind, NormKind, ParseModelError, TensorSpec};
pub use first_layer::KeptAggregate;
pub use input::{Context, Dropout, Input, InputGrads};
pub use loss::{Targets, loss_and_gradient};
pub use metrics::{Metric, MetricCounts};
pub use network::{LayerGrads, Network, Partial, SavedLayer};
pub use structure::{HaloBlock, Structure};
pub use weights::{Adam, Gradients, Weights};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
