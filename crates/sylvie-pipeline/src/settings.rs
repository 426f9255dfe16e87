//! The settings of a run.

use sylvie_gnn::{Metric, ModelConfig};

use crate::policy::ExchangePolicy;

/// Everything that decides a run, besides the data. The same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainSettings {
    /// Shape of the network.
    pub model: ModelConfig,
    /// Precision of what is exchanged.
    pub exchange: ExchangePolicy,
    /// Epochs at most.
    pub n_epochs: u32,
    /// Adam's learning rate.
    pub learning_rate: f32,
    /// Adam's weight decay.
    pub weight_decay: f32,
    /// Key of every random draw.
    pub seed: u64,
    /// Epochs between evaluations; the last epoch is always evaluated.
    pub eval_every: u32,
    /// Evaluations without a better validation score after which training ends.
    pub patience: Option<u32>,
    /// What is evaluated.
    pub metric: Metric,
    /// Host values a tensor, instead of Glorot weights drawn from the seed.
    pub initial_weights: Option<Vec<Vec<f32>>>,
}
