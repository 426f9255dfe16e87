//! Which part owns which node.

use crate::error::GraphError;

/// A part for each node, and the order in which parts list their nodes.
///
/// # Example
/// ```
/// use sylvie_graph::Assignment;
///
/// let assignment = Assignment::new(2, vec![0, 1, 1, 0])?;
/// assert_eq!(assignment.sizes(), [2, 2]);
/// // Part 1 lists node 2 before node 1.
/// let reordered = assignment.in_order(&[0, 2, 1, 3]);
/// assert!(reordered.place(2) < reordered.place(1));
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    n_parts: u32,
    parts: Vec<u32>,
    /// The place of each node among all; absent where that is its number.
    places: Option<Vec<u32>>,
}

impl Assignment {
    /// Takes one part number a node.
    ///
    /// # Errors
    /// [`GraphError::PartOutOfRange`] with the first number not below `n_parts`.
    pub fn new(n_parts: u32, parts: Vec<u32>) -> Result<Self, GraphError> {
        if let Some(node) = parts.iter().position(|&part| part >= n_parts) {
            return Err(GraphError::PartOutOfRange { node, part: parts[node], n_parts });
        }
        Ok(Self { n_parts, parts, places: None })
    }

    /// The same parts, each of which lists its nodes in the order that they have in `order`.
    ///
    /// # Panics
    /// If `order` does not name each node once.
    #[must_use]
    pub fn in_order(self, order: &[u32]) -> Self {
        let n_nodes = self.parts.len();
        assert_eq!(order.len(), n_nodes, "nodes in order and nodes assigned");
        let mut places = vec![u32::MAX; n_nodes];
        for (place, &node) in (0_u32..).zip(order) {
            let slot = &mut places[node as usize];
            assert_eq!(*slot, u32::MAX, "node {node} stands at {slot} and at {place}");
            *slot = place;
        }
        Self { places: Some(places), ..self }
    }

    /// Whether nodes are listed in another order than that of their numbers.
    #[must_use]
    pub fn is_reordered(&self) -> bool {
        self.places.is_some()
    }

    /// The place of a node: parts list their nodes by ascending place.
    ///
    /// # Panics
    /// If there is no such node in an assignment with an order.
    #[must_use]
    pub fn place(&self, node: u32) -> u32 {
        self.places.as_ref().map_or(node, |places| places[node as usize])
    }

    /// Number of parts, empty ones counted.
    #[must_use]
    pub fn n_parts(&self) -> u32 {
        self.n_parts
    }

    /// The part of each node.
    #[must_use]
    pub fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// Number of nodes in each part.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.n_parts as usize];
        for &part in &self.parts {
            sizes[part as usize] += 1;
        }
        sizes
    }
}
