//! Counter-based random numbers addressed by coordinates.
//!
//! Every draw in Sylvie is a pure function of *where* it is used - seed, epoch, stream, layer, pass,
//! node, column - and never of a thread, a rank or an order of calls. That is what makes a run give
//! the same bits on any number of threads and on every transport.
//!
//! The generator is Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", SC 2011): key = seed, counter = (column block, node, epoch, tag), where the tag packs
//! stream, layer, pass and reader.
//!
//! ```
//! use sylvie_random::{Coordinates, Pass, Stream};
//!
//! let family = Coordinates::new(7, Stream::Rounding).at(3, 1, Pass::Forward).family();
//! assert_eq!(family.block(42, 0), family.block(42, 0));
//! assert_ne!(family.block(42, 0), family.block(43, 0));
//! ```
#![no_std]

mod coordinates;
mod draws;
mod philox;

pub use coordinates::{Coordinates, Family, Pass, Stream};
pub use draws::{Sequence, unit_f32, unit_f64};
pub use philox::{philox4x32, philox4x32_7, philox4x32_lanes};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
