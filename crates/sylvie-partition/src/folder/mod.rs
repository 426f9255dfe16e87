//! Partitions as folders: a manifest, and one file a part that its rank reads alone.
//!
//! The bytes are described in docs/partition-folder.md.

mod arrays;
mod error;
mod manifest;
mod part;
mod place;
mod read;
mod structure;
mod write;

pub use error::{ArrayFault, FolderError, FolderFault};
pub use manifest::{CleaningCounts, FeatureKind, LabelKind, Manifest, PartFile, Source};
pub use part::{FolderPart, PartContents};
pub use place::Existing;
pub use read::PartitionFolder;
pub use write::{About, NewFolder};

use serde::{Deserialize, Serialize};

/// What the metadata of a part's file say of it.
#[derive(Debug, Serialize, Deserialize)]
struct PartHead {
    version: u32,
    id: String,
    part: u32,
    parts: u32,
}
