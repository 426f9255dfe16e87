//! From a list of edges as files have them to the adjacency that is trained on.

use rayon::prelude::*;

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
/// Linear in edges, plus sorting each row, which takes all threads. Memory besides `edges`: four bytes an
/// edge and, where inverses are added, four more for them and four a directed edge of the result.
/// # Errors
/// An edge with a node not below `n_nodes`; too many nodes.
///
/// # Example
/// ```
/// use sylvie_graph::{Cleaning, Direction, clean_edges};
///
/// // Who is cited, and who cites: the latter reads the former. One pair twice, and a loop.
/// let edges = [(0, 1), (0, 2), (0, 1), (2, 2)];
/// let (graph, cleaning) = clean_edges(3, &edges, Direction::Directed)?;
/// assert_eq!((graph.degree(0), graph.row(1), graph.row(2)), (0, &[0][..], &[0][..]));
/// let expected = Cleaning { n_stored: 4, n_loops: 1, n_duplicates: 1, n_inverses_added: 0 };
/// assert_eq!(cleaning, expected);
///
/// let (graph, cleaning) = clean_edges(3, &edges, Direction::Symmetric)?;
/// assert_eq!((graph.row(0), cleaning.n_inverses_added), (&[1, 2][..], 2));
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
pub fn clean_edges(
    n_nodes: usize,
    edges: &[(u32, u32)],
    direction: Direction,
) -> Result<(Csr, Cleaning), GraphError> {
    // Checked before loops are dropped, so that a loop on an unknown node is seen too.
    let is_outside = |&(source, target): &(u32, u32)| source.max(target) as usize >= n_nodes;
    if let Some(position) = edges.par_iter().position_first(is_outside) {
        let index = u64::from(edges[position].0.max(edges[position].1));
        return Err(GraphError::IndexOutOfRange { position, index, bound: n_nodes });
    }
    let n_loops = edges.par_iter().filter(|(source, target)| source == target).count();
    let reads = edges.iter().filter(|(source, target)| source != target);
    let distinct =
        Csr::from_pair_iter(n_nodes, n_nodes, reads.map(|&(source, target)| (target, source)))?;
    let n_distinct = distinct.n_edges();
    let graph = match direction {
        Direction::Directed => distinct,
        Direction::Symmetric => symmetric(distinct),
    };
    let cleaning = Cleaning {
        n_stored: edges.len(),
        n_loops,
        n_duplicates: edges.len() - n_loops - n_distinct,
        n_inverses_added: graph.n_edges() - n_distinct,
    };
    Ok((graph, cleaning))
}

fn symmetric(graph: Csr) -> Csr {
    let transposed = graph.transpose();
    // Both directions are often there already.
    if transposed == graph { graph } else { graph.union(&transposed) }
}
