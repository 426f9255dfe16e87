//! Which part owns which node.

use crate::error::GraphError;

/// A part for each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    n_parts: u32,
    parts: Vec<u32>,
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
        Ok(Self { n_parts, parts })
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
