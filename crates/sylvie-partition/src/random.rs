//! A shuffled deck of nodes.

use sylvie_graph::{Assignment, Csr};
use sylvie_random::{Coordinates, Sequence, Stream};

use crate::error::PartitionError;
use crate::partitioner::{Partitioner, assignment, check_input};

/// Shuffles the nodes and deals them out: sizes differ by at most one, edges are not looked at.
///
/// The worst case to compare with. Training nodes are balanced only as chance has it.
///
/// # Example
/// ```
/// use sylvie_graph::Csr;
/// use sylvie_partition::{Partitioner, Random};
///
/// let graph = Csr::from_pairs(6, 6, &[])?;
/// let assignment = Random { seed: 1 }.partition(&graph, &[true; 6], 3)?;
/// assert_eq!(assignment.sizes(), [2, 2, 2]);
/// assert_eq!(assignment, Random { seed: 1 }.partition(&graph, &[true; 6], 3)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// Seed of the shuffle.
    pub seed: u64,
}

impl Partitioner for Random {
    fn partition(
        &self,
        graph: &Csr,
        train: &[bool],
        n_parts: u32,
    ) -> Result<Assignment, PartitionError> {
        check_input(graph, train, n_parts)?;
        let mut order: Vec<u32> = (0..graph.n_rows() as u32).collect();
        let family = Coordinates::new(self.seed, Stream::Partition).family();
        Sequence::new(family, 0).shuffle(&mut order);
        let mut parts = vec![0; order.len()];
        for (node, part) in order.into_iter().zip((0..n_parts).cycle()) {
            parts[node as usize] = part;
        }
        Ok(assignment(n_parts, parts))
    }

    fn name(&self) -> &str {
        "random"
    }
}
