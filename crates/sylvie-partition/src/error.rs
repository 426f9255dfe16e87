//! Why a graph could not be partitioned.

use crate::kway::Objective;

/// A setting or a graph that a partitioner cannot work with.
///
/// # Example
/// ```
/// use sylvie_graph::Csr;
/// use sylvie_partition::{Metis, PartitionError, Partitioner};
///
/// let graph = Csr::from_pairs(3, 3, &[])?;
/// let refused = Metis::default().partition(&graph, &[true; 3], 4);
/// assert_eq!(refused, Err(PartitionError::TooManyParts { n_parts: 4, n_nodes: 3 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// No parts were asked for.
    #[error("a graph cannot be split into 0 parts")]
    NoParts,
    /// Some part would have to stay empty.
    #[error("{n_parts} parts are more than the graph's {n_nodes} nodes")]
    TooManyParts {
        /// Parts asked for.
        n_parts: u32,
        /// Nodes there are.
        n_nodes: usize,
    },
    /// METIS counts nodes in 32 bits, once a balance constraint.
    #[error(
        "{n_nodes} nodes are more than the {limit} that METIS can count; \
         use --partitioner fennel"
    )]
    TooManyNodes {
        /// Nodes there are.
        n_nodes: usize,
        /// Nodes that METIS takes.
        limit: usize,
    },
    /// METIS counts edges, and sums their weights, in 32 bits.
    #[error(
        "{n_edges} directed edges are more than the {limit} that METIS can count with \
         --objective {objective}; use --partitioner fennel{}",
        if *objective == Objective::Volume { ", or --objective cut" } else { "" }
    )]
    TooManyEdges {
        /// Directed edges, inverses included.
        n_edges: usize,
        /// Directed edges that METIS takes.
        limit: usize,
        /// What was to be minimised: the limit depends on it.
        objective: Objective,
    },
    /// A tolerance that no partition could meet, or so loose that parts might stay empty.
    #[error("imbalance {imbalance} is not above 1 and at most {limit}")]
    BadImbalance {
        /// The tolerance asked for.
        imbalance: f32,
        /// The loosest one allowed.
        limit: f32,
    },
    /// METIS gave up; it does so when memory runs out, or when the process is asked to terminate
    /// meanwhile.
    #[error("METIS failed on {n_nodes} nodes and {n_edges} directed edges in {n_parts} parts")]
    Metis {
        /// Nodes given to it.
        n_nodes: usize,
        /// Directed edges given to it.
        n_edges: usize,
        /// Parts asked for.
        n_parts: u32,
        /// What it said.
        source: metis::Error,
    },
    /// No partitioner has this name.
    #[error("unknown partitioner {found:?}; there are metis, fennel, contiguous and random")]
    UnknownMethod {
        /// The name given.
        found: String,
    },
    /// No objective has this name.
    #[error("unknown objective {found:?}; there are volume and cut")]
    UnknownObjective {
        /// The name given.
        found: String,
    },
    /// No order of nodes has this name.
    #[error("unknown order {found:?}; there are auto, given and cluster")]
    UnknownOrder {
        /// The name given.
        found: String,
    },
}
