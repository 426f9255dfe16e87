//! What a run needs to go on from where it was.

use std::sync::Arc;

use sylvie_gnn::{Input, ModelConfig, Moments};
use sylvie_tensor::Wire;

use crate::communication::Arrived;
use crate::evaluation::Scores;
use crate::record::ObserverError;
use crate::sample::Sample;
use crate::stage::ExchangePlan;

/// A row-major matrix on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRows {
    /// Rows.
    pub n_rows: usize,
    /// Columns.
    pub n_cols: usize,
    /// Values, row by row.
    pub values: Vec<f32>,
}

impl HostRows {
    pub(crate) fn download<B: Wire>(backend: &B, matrix: &B::Matrix) -> Self {
        let (n_rows, n_cols) = backend.shape(matrix);
        Self { n_rows, n_cols, values: backend.download(matrix) }
    }

    pub(crate) fn upload<B: Wire>(&self, backend: &B) -> B::Matrix {
        backend.upload(self.n_rows, self.n_cols, &self.values)
    }

    fn has_shape(&self, n_rows: usize, n_cols: usize) -> bool {
        (self.n_rows, self.n_cols) == (n_rows, n_cols) && self.values.len() == n_rows * n_cols
    }
}

/// The model with the best validation score so far.
#[derive(Clone, Debug, PartialEq)]
pub struct BestModel {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Scores there.
    pub scores: Scores,
    /// Its weights, a tensor an entry, in the order of `sylvie_gnn::Weights::specs`.
    pub weights: Vec<Vec<f32>>,
}

/// What of a run is the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedState {
    /// Epochs trained.
    pub n_epochs: u32,
    /// Weights, a tensor an entry, in the order of `sylvie_gnn::Weights::specs`.
    pub weights: Vec<Vec<f32>>,
    /// What the optimiser remembers.
    pub moments: Moments,
    /// The best model, if one has been evaluated.
    pub best: Option<BestModel>,
    /// Scores of the last evaluation, if there was one.
    pub last: Option<Scores>,
    /// Evaluations since the best one.
    pub n_since_best: u32,
    /// Bytes sent for evaluations so far, over all ranks.
    pub eval_bytes: u64,
}

/// Rows that came in an epoch and are used in the next.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptRows {
    /// Halo rows.
    Halo {
        /// Numbers of halo blocks, and their rows.
        blocks: Vec<(usize, HostRows)>,
        /// The epoch whose boundary sample they are of, where rows are sampled.
        sampled_in: Option<u32>,
    },
    /// Gradients of boundary rows.
    Boundary(HostRows),
}

/// What each rank has of its own: rows that were sent in one epoch for the next, and their averages.
///
/// An entry for evaluation, which keeps nothing, then two a layer: forward and backward.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HaloState {
    /// Rows to be used in the next epoch.
    pub kept: Vec<Option<KeptRows>>,
    /// Running averages, where rows are smoothed.
    pub averages: Vec<Option<Vec<HostRows>>>,
}

/// Everything that one rank needs to go on as if it had never stopped, besides settings and data.
#[derive(Clone, Debug, PartialEq)]
pub struct RankState {
    /// What is the same on every rank.
    pub shared: SharedState,
    /// What is this rank's.
    pub halo: HaloState,
}

/// Whoever keeps states, on each rank.
///
/// All ranks keep the state of the same epoch at the same time, and `commit` comes when all of them
/// have kept theirs: until then the state before must not be given up.
///
/// # Example
/// ```
/// use sylvie_pipeline::{CheckpointSink, Checkpoints, ObserverError, RankState};
///
/// /// Keeps the newest state in memory.
/// #[derive(Default)]
/// struct Newest {
///     stored: Option<RankState>,
///     whole: Option<RankState>,
/// }
///
/// impl CheckpointSink for Newest {
///     fn store(&mut self, state: &RankState) -> Result<(), ObserverError> {
///         self.stored = Some(state.clone());
///         Ok(())
///     }
///
///     fn commit(&mut self, _: u32) -> Result<(), ObserverError> {
///         self.whole = self.stored.take();
///         Ok(())
///     }
/// }
///
/// let mut sink = Newest::default();
/// // For `train_with_checkpoints`; `resume: sink.whole` takes a later run on from there.
/// let checkpoints =
///     Checkpoints { sink: Some(&mut sink), every: Some(10), ..Checkpoints::none() };
/// assert!(checkpoints.resume.is_none());
/// ```
pub trait CheckpointSink: Send {
    /// Keeps a state, beside the one before.
    ///
    /// # Errors
    /// Whatever should end the run, as a full disk.
    fn store(&mut self, state: &RankState) -> Result<(), ObserverError>;

    /// Lets the state after `n_epochs` epochs, which every rank has stored, take the place of the one
    /// before.
    ///
    /// # Errors
    /// Whatever should end the run.
    fn commit(&mut self, n_epochs: u32) -> Result<(), ObserverError>;
}

impl HaloState {
    /// Reads what the slots hold and the averages are.
    pub(crate) fn download<'a, B: Wire + 'a>(
        backend: &B,
        kept: impl Iterator<Item = Option<&'a Arrived<B>>>,
        averages: Vec<Option<Vec<HostRows>>>,
    ) -> Self {
        let host = |arrived: &Arrived<B>| match arrived {
            Arrived::Nothing => None,
            Arrived::Boundary(rows) => Some(KeptRows::Boundary(HostRows::download(backend, rows))),
            Arrived::Halo { blocks, sample } => {
                let rows = |rows: &Input<B>| match rows {
                    Input::Dense(rows) => HostRows::download(backend, rows),
                    Input::Packed(rows) => HostRows::download(backend, &backend.unpacked(rows)),
                    Input::Sparse(_) => panic!("sparse rows in an exchange"),
                };
                let blocks = blocks.iter().map(|(block, input)| (*block, rows(input))).collect();
                let sampled_in = sample.as_ref().map(|sample| sample.epoch);
                Some(KeptRows::Halo { blocks, sampled_in })
            }
        };
        Self { kept: kept.map(|arrived| arrived.and_then(host)).collect(), averages }
    }

    /// Whether everything in it is of the shapes that network and part ask for.
    pub(crate) fn fits<B: Wire>(&self, model: &ModelConfig, plan: &ExchangePlan<B>) -> bool {
        let n_slots = 2 * model.n_layers() + 1;
        let n_cols = |slot: usize| model.n_columns_in(slot.saturating_sub(1) / 2);
        let is_block = |&(block, ref rows): &(usize, HostRows), n_cols| {
            plan.halo.get(block).is_some_and(|planned| rows.has_shape(planned.ids.len(), n_cols))
        };
        let is_kept = |(slot, kept): (usize, &Option<KeptRows>)| match kept {
            None => true,
            Some(KeptRows::Halo { blocks, .. }) => {
                slot % 2 == 1 && blocks.iter().all(|block| is_block(block, n_cols(slot)))
            }
            Some(KeptRows::Boundary(rows)) => {
                slot > 0 && slot % 2 == 0 && rows.has_shape(plan.boundary_ids.len(), n_cols(slot))
            }
        };
        let is_average = |(slot, rows): (usize, &Option<Vec<HostRows>>)| {
            let Some(rows) = rows else { return true };
            let shapes: Vec<usize> = match slot % 2 {
                1 => plan.halo.iter().map(|block| block.ids.len()).collect(),
                _ => vec![plan.boundary_ids.len()],
            };
            let all = || rows.iter().zip(&shapes);
            rows.len() == shapes.len() && all().all(|(rows, &n)| rows.has_shape(n, n_cols(slot)))
        };
        (self.kept.len(), self.averages.len()) == (n_slots, n_slots)
            && self.kept.iter().enumerate().all(is_kept)
            && self.averages.iter().enumerate().all(is_average)
    }
}

impl KeptRows {
    /// Brings rows back to the backend; `sample` draws the sample of an epoch.
    pub(crate) fn upload<B: Wire>(
        &self,
        backend: &B,
        sample: impl Fn(u32) -> Arc<Sample<B>>,
    ) -> Arrived<B> {
        match self {
            Self::Boundary(rows) => Arrived::Boundary(Arc::new(rows.upload(backend))),
            Self::Halo { blocks, sampled_in } => Arrived::Halo {
                blocks: blocks
                    .iter()
                    .map(|(block, rows)| (*block, Input::dense(rows.upload(backend))))
                    .collect(),
                sample: sampled_in.map(sample),
            },
        }
    }
}
