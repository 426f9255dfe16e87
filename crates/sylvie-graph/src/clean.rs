//! From a list of edges as files have them to the adjacency that is trained on.

use crate::csr::Csr;
use crate::error::GraphError;

/// Whether edges are read both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Add the inverse of each edge.
    #[default]
    Symmetric,
    /// Keep edges as given, from the node read to the node that reads.
    Directed,
}

/// What cleaning changed, in directed edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Edges given.
    pub n_stored: usize,
    /// Edges from a node to itself, removed.
    pub n_loops: usize,
    /// Repetitions of an edge in the same direction, removed.
    pub n_duplicates: usize,
    /// Inverse edges added.
    pub n_inverses_added: usize,
}

/// Builds the adjacency of `edges`, pairs `(source, target)`: row `target` reads `source`.
///
/// Loops and duplicates are dropped; with [`Direction::Symmetric`] missing inverses are added.
///
/// # Cost
/// Linear in edges, plus sorting each row.
/// # Errors
/// An edge with a node not below `n_nodes`; too many nodes.
pub fn clean_edges(
    n_nodes: usize,
    edges: &[(u32, u32)],
    direction: Direction,
) -> Result<(Csr, Cleaning), GraphError> {
    let reads: Vec<(u32, u32)> = edges.iter().map(|&(source, target)| (target, source)).collect();
    // Checked before loops are dropped, so that a loop on an unknown node is seen too.
    if let Some(position) = edges.iter().position(|&(s, t)| s.max(t) as usize >= n_nodes) {
        let index = u64::from(edges[position].0.max(edges[position].1));
        return Err(GraphError::IndexOutOfRange { position, index, bound: n_nodes });
    }
    let without_loops: Vec<(u32, u32)> =
        reads.into_iter().filter(|(target, source)| target != source).collect();
    let n_loops = edges.len() - without_loops.len();
    let distinct = Csr::from_pairs(n_nodes, n_nodes, &without_loops)?;
    let n_duplicates = without_loops.len() - distinct.n_edges();
    let n_distinct = distinct.n_edges();
    let graph = match direction {
        Direction::Directed => distinct,
        Direction::Symmetric => distinct.union(&distinct.transpose()),
    };
    let cleaning = Cleaning {
        n_stored: edges.len(),
        n_loops,
        n_duplicates,
        n_inverses_added: graph.n_edges() - n_distinct,
    };
    Ok((graph, cleaning))
}
