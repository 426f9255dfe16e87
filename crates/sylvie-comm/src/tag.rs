//! What an exchange is for.

use std::fmt;

use sylvie_random::Pass;

/// The part of a run to which an exchange belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Before the first epoch: the raw features of halo rows.
    Setup,
    /// An epoch of training.
    Training,
    /// A full-precision forward pass for validation or test.
    Evaluation,
}

impl Purpose {
    /// The word used in messages and files: `setup`, `training` or `evaluation`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Training => "training",
            Self::Evaluation => "evaluation",
        }
    }
}

/// Names an exchange; both ends of a message must agree on it.
///
/// Tags order by epoch, then layer, pass and purpose.
///
/// # Example
/// ```
/// use sylvie_comm::{Pass, Purpose, Tag};
///
/// let forward = Tag { epoch: 3, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };
/// let backward = Tag { pass: Pass::Backward, ..forward };
/// assert_eq!(backward.to_string(), "training epoch 3 layer 1 backward");
/// assert!(forward < backward && backward < Tag { epoch: 4, ..forward });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Layer, from 0.
    pub layer: u16,
    /// Embeddings forward or gradients backward.
    pub pass: Pass,
    /// Set-up, training or evaluation.
    pub purpose: Purpose,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, layer, pass, purpose } = self;
        write!(f, "{} epoch {epoch} layer {layer} {}", purpose.name(), pass.name())
    }
}
