//! The seam between those who need an assignment and the ways to make one.

use sylvie_graph::{Assignment, Csr};

use crate::error::PartitionError;

/// A way to assign the nodes of a graph to parts.
///
/// The same partitioner, graph, training nodes and number of parts give the same assignment, in any
/// thread and however often it is asked; every part owns at least one node.
///
/// # Example
/// ```
/// use sylvie_graph::{Assignment, Csr};
/// use sylvie_partition::{PartitionError, Partitioner};
///
/// /// Deals nodes out in turn.
/// struct InTurn;
///
/// impl Partitioner for InTurn {
///     fn partition(&self, graph: &Csr, _: &[bool], n: u32) -> Result<Assignment, PartitionError> {
///         let n_nodes = graph.n_rows();
///         if n == 0 || n as usize > n_nodes {
///             return Err(PartitionError::TooManyParts { n_parts: n, n_nodes });
///         }
///         let parts = (0..n_nodes as u32).map(|node| node % n).collect();
///         Ok(Assignment::new(n, parts).expect("a remainder is below the number of parts"))
///     }
///
///     fn name(&self) -> &str {
///         "in turn"
///     }
/// }
///
/// let graph = Csr::from_pairs(5, 5, &[])?;
/// assert_eq!(InTurn.partition(&graph, &[true; 5], 2)?.parts(), [0, 1, 0, 1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Partitioner {
    /// Assigns each node of `graph` to one of `n_parts` parts.
    ///
    /// # Shapes
    /// `graph`: square. `train`: one flag a node, set for the nodes whose number should be balanced
    /// besides that of all nodes.
    /// # Errors
    /// No parts, more parts than nodes, and what the method itself cannot take.
    /// # Panics
    /// If `graph` is not square, or `train` is not as long as it has rows.
    fn partition(
        &self,
        graph: &Csr,
        train: &[bool],
        n_parts: u32,
    ) -> Result<Assignment, PartitionError>;

    /// The word used on the command line and in messages.
    fn name(&self) -> &str;
}

/// Checks what every partitioner asks of its input.
pub(crate) fn check_input(graph: &Csr, train: &[bool], n_parts: u32) -> Result<(), PartitionError> {
    let n_nodes = graph.n_rows();
    assert_eq!(graph.n_cols(), n_nodes, "columns and rows of a graph to partition");
    assert_eq!(train.len(), n_nodes, "training flags and nodes of a graph to partition");
    if n_parts == 0 {
        return Err(PartitionError::NoParts);
    }
    if n_parts as usize > n_nodes {
        return Err(PartitionError::TooManyParts { n_parts, n_nodes });
    }
    Ok(())
}

/// Wraps part numbers that are below `n_parts` by construction.
pub(crate) fn assignment(n_parts: u32, parts: Vec<u32>) -> Assignment {
    Assignment::new(n_parts, parts).expect("part numbers below the number of parts")
}
