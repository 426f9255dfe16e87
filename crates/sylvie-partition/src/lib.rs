//! Who owns which node, how good that is, and what each part needs of the others.
//!
//! Three steps, each usable alone: a [`Partitioner`] assigns every node to a part, [`quality`] measures
//! the assignment, and [`build_parts`] cuts the graph into [`PartGraph`](sylvie_graph::PartGraph)s with
//! the halo plan that both sides of an exchange share. Nothing here knows tensors or training, prints
//! or reads a file.
#![doc = "\n"]
#![doc = include_str!("../README.md")]

mod contiguous;
mod error;
mod halo;
mod kway;
mod method;
mod partitioner;
mod quality;
mod random;
mod repair;

pub use contiguous::Contiguous;
pub use error::PartitionError;
pub use halo::{build_part, build_parts};
pub use kway::{Metis, Objective};
pub use method::Method;
pub use partitioner::Partitioner;
pub use quality::{PartQuality, Quality, quality};
pub use random::Random;
