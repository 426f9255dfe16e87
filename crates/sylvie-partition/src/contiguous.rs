//! Ranges of node ids.

use sylvie_graph::{Assignment, Csr};

use crate::error::PartitionError;
use crate::partitioner::{Partitioner, assignment, check_input};

/// Cuts the node ids into ranges whose lengths differ by at most one.
///
/// Good for graphs whose ids already follow their structure; training nodes are not balanced.
///
/// # Example
/// ```
/// use sylvie_graph::Csr;
/// use sylvie_partition::{Contiguous, Partitioner};
///
/// let graph = Csr::from_pairs(5, 5, &[])?;
/// let assignment = Contiguous.partition(&graph, &[true; 5], 2)?;
/// assert_eq!(assignment.parts(), [0, 0, 0, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Contiguous;

impl Partitioner for Contiguous {
    fn partition(
        &self,
        graph: &Csr,
        train: &[bool],
        n_parts: u32,
    ) -> Result<Assignment, PartitionError> {
        check_input(graph, train, n_parts)?;
        let (n_nodes, n_ranges) = (graph.n_rows() as u64, u64::from(n_parts));
        // Node ids and part numbers have 32 bits each, so the product fits.
        let parts = (0..n_nodes).map(|node| (node * n_ranges / n_nodes) as u32).collect();
        Ok(assignment(n_parts, parts))
    }

    fn name(&self) -> &str {
        "contiguous"
    }
}
