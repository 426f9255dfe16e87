//! The settings of a run.

use sylvie_gnn::{ClassWeights, Metric, ModelConfig};
use sylvie_tensor::Gather;

use crate::policy::ExchangePolicy;

/// Everything that decides a run, besides the data. The same on every rank.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{Preset, TrainSettings};
///
/// let model = ModelConfig::new(ModelKind::Sage, vec![16, 32, 4]);
/// let policy = Preset::SylvieS.policy();
/// let settings = TrainSettings { n_epochs: 40, ..TrainSettings::new(model, policy) };
/// assert_eq!((settings.n_epochs, settings.eval_every), (40, 5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TrainSettings {
    /// Shape of the network.
    pub model: ModelConfig,
    /// What crosses the split, when, and at which precision.
    pub exchange: ExchangePolicy,
    /// Rows that training's sums over neighbours gather, after the first layer's, which is taken once.
    /// Evaluations gather f32.
    pub gather: Gather,
    /// Epochs at most.
    pub n_epochs: u32,
    /// Adam's learning rate.
    pub learning_rate: f32,
    /// Adam's weight decay.
    pub weight_decay: f32,
    /// What each class counts in the loss.
    pub class_weights: ClassWeights,
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

impl TrainSettings {
    /// A hundred epochs with Adam at a rate of 0.01, f32 throughout, seed 1, all classes alike, accuracy every five epochs and no early end.
    #[must_use]
    pub fn new(model: ModelConfig, exchange: ExchangePolicy) -> Self {
        Self {
            model,
            exchange,
            gather: Gather::F32,
            n_epochs: 100,
            learning_rate: 0.01,
            weight_decay: 0.0,
            class_weights: ClassWeights::None,
            seed: 1,
            eval_every: 5,
            patience: None,
            metric: Metric::Accuracy,
            initial_weights: None,
        }
    }
}
