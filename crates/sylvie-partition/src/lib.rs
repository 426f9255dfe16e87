//! Who owns which node, how good that is, and what each part needs of the others.
//!
//! Three steps, each usable alone: a [`Partitioner`] assigns every node to a part, [`quality`] measures
//! the assignment, and [`build_parts`] cuts the graph into [`PartGraph`](sylvie_graph::PartGraph)s with
//! the halo plan that both sides of an exchange share; [`cluster_order`] lists nodes so that neighbours
//! stand close to each other. [`NewFolder`] writes parts with their features,
//! labels and roles as a folder, one file a part, and [`PartitionFolder`] reads them back one at a time.
//! Nothing here knows tensors or training, or prints.
#![doc = "\n"]
#![doc = include_str!("../README.md")]

mod contiguous;
mod error;
mod fennel;
mod folder;
mod halo;
mod kway;
mod method;
mod order;
mod partitioner;
mod quality;
mod random;
mod repair;

pub use contiguous::Contiguous;
pub use error::PartitionError;
pub use fennel::Fennel;
pub use folder::{
    About, ArrayFault, CleaningCounts, Existing, FeatureKind, FolderError, FolderFault, FolderPart,
    LabelKind, Manifest, NewFolder, PartContents, PartFile, PartitionFolder, Source,
};
pub use halo::{PartCutter, build_part, build_parts};
pub use kway::{Metis, Objective};
pub use method::Method;
pub use order::{NodeOrder, cluster_order};
pub use partitioner::Partitioner;
pub use quality::{PartQuality, Quality, quality};
pub use random::Random;
