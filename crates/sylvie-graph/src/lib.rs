//! Graphs, features, labels, splits, parts and halo plans as plain values.
//!
//! Nothing here reads files, draws random numbers or knows how rows travel. A graph is a [`Csr`]
//! whose row `v` lists the nodes that `v` *reads*: an edge `(source, target)` becomes column
//! `source` of row `target`.
//!
//! ```
//! use sylvie_graph::{Direction, clean_edges};
//!
//! // A triangle given once an edge, with one duplicate and one loop.
//! let edges = [(0, 1), (1, 2), (2, 0), (0, 1), (2, 2)];
//! let (graph, cleaning) = clean_edges(3, &edges, Direction::Symmetric)?;
//! assert_eq!(graph.row(0), [1, 2]);
//! assert_eq!((cleaning.n_loops, cleaning.n_duplicates, cleaning.n_inverses_added), (1, 1, 3));
//! # Ok::<(), sylvie_graph::GraphError>(())
//! ```

mod assignment;
mod clean;
mod csr;
mod dataset;
mod error;
mod features;
mod labels;
mod part;
mod split;
mod statistics;

pub use assignment::Assignment;
pub use clean::{Cleaning, Direction, clean_edges};
pub use csr::Csr;
pub use dataset::Dataset;
pub use error::GraphError;
pub use features::{DenseMatrix, Features, SparseMatrix};
pub use labels::{Labels, UNLABELLED};
pub use part::{Block, HaloPlan, PartGraph, SendList};
pub use split::{Role, Split};
pub use statistics::{DegreeSummary, degree_summary, edge_homophily};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
