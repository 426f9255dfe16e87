//! Checkpoints: the state of a run on the disk, from which it goes on bit for bit.
//!
//! They lie in the run folder, below `checkpoints`, in a folder that tells after how many epochs. What
//! is the same on every rank is in one file, what is each rank's own in a file a rank. All of them are
//! written beside their place and are on the disk before the folder is renamed; the checkpoint before
//! is removed after that. So there is a whole one at any moment after the first.

mod file;
mod read;
mod write;

pub(crate) use read::{Resumable, newest, way_on};
pub(crate) use write::{CheckpointFolder, remove_all, remove_unfinished};

use serde::{Deserialize, Serialize};

/// Where a run folder has its checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// What is the same on every rank.
const SHARED: &str = "shared.safetensors";
/// The end of the name of a checkpoint that is not whole yet.
const UNFINISHED: &str = ".new";
/// What the names of checkpoints begin with.
const PREFIX: &str = "epoch-";
/// Version of the format.
const VERSION: u32 = 1;

fn folder_name(n_epochs: u32) -> String {
    format!("{PREFIX}{n_epochs:06}")
}

/// The number of epochs in the name of a whole checkpoint.
fn n_epochs_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn rank_file(rank: usize) -> String {
    format!("rank-{rank:05}.safetensors")
}

/// What every file of a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head<T> {
    version: u32,
    sylvie: String,
    /// Sum of the settings: files of one checkpoint agree in it.
    run: String,
    n_epochs: u32,
    parts: u32,
    #[serde(flatten)]
    own: T,
}

/// What is the same on every rank, besides tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SharedHead {
    /// run.toml.
    settings: String,
    /// What it was computed on: cpu or cuda.
    machine: String,
    /// Steps of the optimiser.
    n_steps: u32,
    best_epoch: Option<u32>,
    has_last: bool,
    n_since_best: u32,
    eval_bytes: u64,
}

/// What is a rank's own, besides tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RankHead {
    rank: usize,
    /// Sum of the data that the rank trains on.
    data: String,
    /// An entry for each slot.
    kept: Vec<Option<KeptHead>>,
    /// Number of matrices in each slot's average.
    averages: Vec<Option<usize>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeptHead {
    Halo { blocks: Vec<usize>, sampled_in: Option<u32> },
    Boundary,
}
