//! The settings of a run.

use sylvie_gnn::{ClassWeights, Metric, ModelConfig};
use sylvie_tensor::Gather;

use crate::policy::{ExchangePolicy, HaloRows, PolicyError};

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

    /// Checks what is exchanged, and how it is summed, against each other and the network.
    ///
    /// # Errors
    /// The first that cannot be.
    ///
    /// # Example
    /// ```
    /// use sylvie_gnn::{ModelConfig, ModelKind};
    /// use sylvie_pipeline::{Preset, TrainSettings};
    ///
    /// let model = ModelConfig::new(ModelKind::Sage, vec![16, 32, 4]);
    /// let settings = TrainSettings::new(model, Preset::SylvieS.policy());
    /// assert_eq!(settings.check(), Ok(()));
    /// ```
    pub fn check(&self) -> Result<(), PolicyError> {
        self.exchange.check(&self.model)?;
        if self.gather == Gather::Bf16 && self.exchange.halo == HaloRows::Packed {
            return Err(PolicyError::Conflict {
                what: "--halo packed",
                with: "--gather bf16",
                reason: "packed rows are summed as they are, others rounded first, and how rows lie in memory is to change no result",
            });
        }
        Ok(())
    }

    /// How halo rows lie in memory.
    pub(crate) fn halo_rows(&self) -> HaloRows {
        match self.gather {
            Gather::F32 => self.exchange.halo_rows(self.model.kind),
            Gather::Bf16 => HaloRows::F32,
        }
    }
}

#[cfg(test)]
mod tests {
    use sylvie_gnn::{ModelConfig, ModelKind};
    use sylvie_lowbit::Width;
    use sylvie_tensor::{CpuBackend, Gather, Wire as _};

    use super::TrainSettings;
    use crate::policy::{Directions, ExchangePolicy, HaloRows};
    use crate::preset::Preset;

    #[test]
    fn rows_are_packed_by_default_where_they_can_be() {
        let settings = |kind, exchange| {
            TrainSettings::new(ModelConfig::new(kind, vec![16, 64, 64, 4]), exchange)
        };
        let sylvie_a = || Preset::SylvieA.policy();
        let sampled = ExchangePolicy { boundary_sampling: Some(0.5), ..sylvie_a() };
        let smooth = |smooth| ExchangePolicy { smooth: Some(smooth), ..sylvie_a() };
        for (kind, exchange, expected) in [
            (ModelKind::Sage, sylvie_a(), HaloRows::Auto),
            (ModelKind::Gcn, smooth(Directions::Gradients), HaloRows::Auto),
            (ModelKind::Gat, sylvie_a(), HaloRows::F32),
            (ModelKind::Gcn, sampled, HaloRows::F32),
            (ModelKind::Gcn, smooth(Directions::Features), HaloRows::F32),
        ] {
            assert_eq!(settings(kind, exchange).halo_rows(), expected, "{kind}");
        }
        let rounded =
            TrainSettings { gather: Gather::Bf16, ..settings(ModelKind::Sage, sylvie_a()) };
        assert_eq!((rounded.check(), rounded.halo_rows()), (Ok(()), HaloRows::F32));
        let mut packed = rounded;
        packed.exchange.halo = HaloRows::Packed;
        assert!(packed.check().unwrap_err().to_string().contains("--gather bf16"));

        let backend = CpuBackend::new(1);
        for width in [Width::One, Width::Two, Width::Four, Width::Eight, Width::F16] {
            let packs = |halo: HaloRows| halo.packs(&backend, width, 64);
            let expected = [backend.packs_well(width, 64), false, width.is_quantized()];
            assert_eq!([HaloRows::Auto, HaloRows::F32, HaloRows::Packed].map(packs), expected);
        }
    }
}
