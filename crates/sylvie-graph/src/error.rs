//! What can be wrong with the values a graph is made of.

/// A value that does not describe a graph data set.
///
/// # Example
/// ```
/// use sylvie_graph::{Csr, GraphError};
///
/// let refused = Csr::new(2, vec![0, 1, 2], vec![1, 7]);
/// assert_eq!(refused, Err(GraphError::IndexOutOfRange { position: 1, index: 7, bound: 2 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Node ids are 32-bit.
    #[error("{n_nodes} nodes are more than 32-bit node ids can name")]
    TooManyNodes {
        /// Nodes asked for.
        n_nodes: usize,
    },
    /// A row offset array that does not start at 0, falls, or does not end at the number of indices.
    #[error(
        "row offset {offset} at position {position} is out of order or does not match {n_indices} indices"
    )]
    BadOffset {
        /// Where in the offsets.
        position: usize,
        /// The offset found there.
        offset: u64,
        /// Number of column indices.
        n_indices: usize,
    },
    /// A column index outside the matrix.
    #[error("index {index} at position {position} is not below {bound}")]
    IndexOutOfRange {
        /// Where in the list.
        position: usize,
        /// The index found there.
        index: u64,
        /// Exclusive upper bound.
        bound: usize,
    },
    /// Column indices of a row that are not strictly ascending.
    #[error("the column indices of row {row} are not strictly ascending")]
    UnsortedRow {
        /// The row.
        row: usize,
    },
    /// Two arrays that must have the same length do not.
    #[error("{what} has {found} entries, expected {expected}")]
    LengthMismatch {
        /// The array.
        what: &'static str,
        /// Entries it must have.
        expected: usize,
        /// Entries it has.
        found: usize,
    },
    /// A feature that is NaN or infinite.
    #[error("the feature in row {row}, column {column} is not a finite 32-bit number")]
    NotFinite {
        /// Node.
        row: usize,
        /// Feature.
        column: usize,
    },
    /// A label that is not below the number of classes.
    #[error("the label {label} of node {node} is not below the number of classes {n_classes}")]
    LabelOutOfRange {
        /// Node.
        node: usize,
        /// Its label.
        label: u64,
        /// Number of classes.
        n_classes: u32,
    },
    /// A node in two sets of a split.
    #[error("node {node} is in the {first} set and in the {second} set")]
    OverlappingSplit {
        /// Node.
        node: u32,
        /// First set.
        first: &'static str,
        /// Second set.
        second: &'static str,
    },
    /// A set of a split without a labelled node.
    #[error("the {set} set has no labelled node")]
    EmptySplit {
        /// `training`, `validation` or `test`.
        set: &'static str,
    },
    /// A part number outside the assignment's parts.
    #[error("node {node} is assigned to part {part} of {n_parts}")]
    PartOutOfRange {
        /// Node.
        node: usize,
        /// Its part.
        part: u32,
        /// Number of parts.
        n_parts: u32,
    },
}
