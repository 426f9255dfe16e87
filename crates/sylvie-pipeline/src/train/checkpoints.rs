//! Where a run begins, and where its states go.

use std::fmt;
use std::sync::atomic::AtomicBool;

use crate::state::{CheckpointSink, RankState};

/// Where a run begins, where its states go, and who may stop it; on one rank.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// The state to go on from; the run's beginning where there is none. All ranks go on from the same
    /// epoch.
    pub resume: Option<RankState>,
    /// Where states go, on all ranks or on none.
    pub sink: Option<&'a mut dyn CheckpointSink>,
    /// Epochs from one state to the next, the same on every rank; the last epoch's is kept too. Without,
    /// a state is kept where the run is stopped, and at the end of one that was resumed.
    pub every: Option<u32>,
    /// Set while the run goes on, it ends after the epoch: all ranks do, whichever was asked to.
    pub stop: Option<&'a AtomicBool>,
}

impl Checkpoints<'_> {
    /// From the beginning to the end, and nothing is kept.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Checkpoints<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoints")
            .field("resumes", &self.resume.is_some())
            .field("keeps", &self.sink.is_some())
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}
