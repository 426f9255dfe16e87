//! What a run ends with.

use crate::evaluation::Scores;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All epochs are done.
    Complete,
    /// The validation score had not become better for as long as the settings' patience.
    Patience,
    /// A rank was asked to stop.
    Stopped,
}

/// What a run ends with; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOutcome {
    /// Why the run ended.
    pub end: End,
    /// Epochs trained, those before a resumed run's checkpoint included.
    pub n_epochs: u32,
    /// The epoch with the best validation score, the first of equals.
    pub best_epoch: u32,
    /// Scores there.
    pub best: Scores,
    /// Scores of the last evaluation.
    pub last: Scores,
    /// Host values of the weights at the best epoch, a tensor an entry, in the order of
    /// `sylvie_gnn::Weights::specs`.
    pub weights: Vec<Vec<f32>>,
    /// Bytes that one epoch takes when every boundary row goes each way once in full precision, over all
    /// ranks.
    pub fp32_bytes_per_epoch: u64,
    /// Bytes sent for raw features before the first epoch, over all ranks.
    pub setup_bytes: u64,
    /// Bytes sent for all evaluations, over all ranks.
    pub eval_bytes: u64,
}
