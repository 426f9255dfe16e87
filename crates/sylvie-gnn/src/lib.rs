//! GCN, GraphSAGE and GAT with explicit forward and backward passes.
//!
//! A network is computed layer by layer, so that its caller can exchange halo rows in between, and a
//! layer block by block: [`Network::begin`] with the own rows, [`Network::add_block`] for each block
//! of halo rows, [`Network::finish`]. The backward pass goes the same way: [`Network::begin_backward`],
//! [`Network::block_gradient`] for each block, so that its rows' gradients can leave while
//! [`Network::finish_backward`] computes those of the own rows and the weights.
//! [`ColumnFactors`] leave halo rows out or weigh them. Nothing here knows ranks, epochs or precision.

mod backward;
mod class_weights;
mod config;
mod factors;
mod first_layer;
mod gat;
mod gcn;
mod input;
mod linear;
mod loss;
mod metrics;
mod neighbours;
mod network;
mod post;
#[cfg(test)]
mod reference;
mod sage;
mod structure;
mod weights;

pub use backward::{BackwardPartial, LayerGrads};
pub use class_weights::{ClassCounts, ClassWeights, loss_divisor};
pub use config::{ConfigError, ModelConfig, ModelKind, NormKind, ParseModelError, TensorSpec};
pub use factors::ColumnFactors;
pub use first_layer::KeptAggregate;
pub use input::{Context, Dropout, Input};
pub use loss::{Targets, loss_and_gradient};
pub use metrics::{Metric, MetricCounts};
pub use network::{Network, Partial, SavedLayer};
pub use structure::{HaloBlock, Structure};
pub use weights::{Adam, Gradients, Moments, Weights};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
