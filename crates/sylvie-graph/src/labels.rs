//! What is predicted of a node.

use crate::error::GraphError;

/// The class of a node that has none.
pub const UNLABELLED: u32 = u32::MAX;

/// Labels of all nodes.
///
/// # Example
/// ```
/// use sylvie_graph::{Labels, UNLABELLED};
///
/// let one_each = Labels::single(3, vec![0, 2, UNLABELLED])?;
/// assert_eq!((one_each.n_classes(), one_each.n_unlabelled()), (3, 1));
/// let several = Labels::multi(2, vec![1, 1, 0, 0])?; // a node with both classes, and one with none
/// assert_eq!((several.n_nodes(), several.n_unlabelled()), (2, 0));
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Each node has one class, or [`UNLABELLED`].
    Single {
        /// Number of classes.
        n_classes: u32,
        /// Class of each node.
        classes: Vec<u32>,
    },
    /// Each node has any number of classes.
    Multi {
        /// Number of classes.
        n_classes: u32,
        /// `n_nodes x n_classes`, row-major, 0 or 1.
        values: Vec<u8>,
        /// Whether a node's row is known.
        labelled: Vec<bool>,
    },
}

impl Labels {
    /// Single labels, checked.
    ///
    /// # Errors
    /// [`GraphError::LabelOutOfRange`] with the first class that is neither below `n_classes` nor
    /// [`UNLABELLED`].
    pub fn single(n_classes: u32, classes: Vec<u32>) -> Result<Self, GraphError> {
        let bad = classes.iter().position(|&class| class >= n_classes && class != UNLABELLED);
        if let Some(node) = bad {
            let label = u64::from(classes[node]);
            return Err(GraphError::LabelOutOfRange { node, label, n_classes });
        }
        Ok(Self::Single { n_classes, classes })
    }

    /// Multi-labels of which every row is known, checked.
    ///
    /// # Errors
    /// A value other than 0 and 1; a length that is no multiple of `n_classes`.
    pub fn multi(n_classes: u32, values: Vec<u8>) -> Result<Self, GraphError> {
        let width = n_classes as usize;
        if width == 0 || !values.len().is_multiple_of(width) {
            let (what, found) = ("label matrix", values.len());
            return Err(GraphError::LengthMismatch { what, expected: width, found });
        }
        if let Some(at) = values.iter().position(|&value| value > 1) {
            let (node, label) = (at / width, u64::from(values[at]));
            return Err(GraphError::LabelOutOfRange { node, label, n_classes: 2 });
        }
        let labelled = vec![true; values.len() / width];
        Ok(Self::Multi { n_classes, values, labelled })
    }

    /// Number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        match self {
            Self::Single { classes, .. } => classes.len(),
            Self::Multi { labelled, .. } => labelled.len(),
        }
    }

    /// Number of classes: the width of a network's output.
    #[must_use]
    pub fn n_classes(&self) -> u32 {
        match self {
            Self::Single { n_classes, .. } | Self::Multi { n_classes, .. } => *n_classes,
        }
    }

    /// Whether a node may have several classes.
    #[must_use]
    pub fn is_multi(&self) -> bool {
        matches!(self, Self::Multi { .. })
    }

    /// Whether the node's label is known.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn is_labelled(&self, node: usize) -> bool {
        match self {
            Self::Single { classes, .. } => classes[node] != UNLABELLED,
            Self::Multi { labelled, .. } => labelled[node],
        }
    }

    /// Number of nodes whose label is not known.
    #[must_use]
    pub fn n_unlabelled(&self) -> usize {
        (0..self.n_nodes()).filter(|&node| !self.is_labelled(node)).count()
    }

    /// The labels of the nodes `rows`, in that order.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn gather_rows(&self, rows: &[u32]) -> Self {
        let rows = rows.iter().map(|&row| row as usize);
        match self {
            Self::Single { n_classes, classes } => {
                let classes = rows.map(|row| classes[row]).collect();
                Self::Single { n_classes: *n_classes, classes }
            }
            Self::Multi { n_classes, values, labelled } => {
                let width = *n_classes as usize;
                let known = rows.clone().map(|row| labelled[row]).collect();
                let values = rows.flat_map(|row| &values[row * width..(row + 1) * width]);
                let values = values.copied().collect();
                Self::Multi { n_classes: *n_classes, values, labelled: known }
            }
        }
    }
}
