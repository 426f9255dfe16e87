//! A graph with everything that training on it needs.

use crate::clean::Cleaning;
use crate::clean::Direction;
use crate::csr::Csr;
use crate::error::GraphError;
use crate::features::Features;
use crate::labels::Labels;
use crate::split::Split;

/// A cleaned graph with features, labels and a split.
///
/// # Example
/// ```
/// use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Split, clean_edges};
///
/// // A graph of one's own, without a file.
/// let (graph, cleaning) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// let dataset = Dataset {
///     name: "path".to_owned(),
///     graph,
///     direction: Direction::Symmetric,
///     cleaning,
///     features: Features::Dense(DenseMatrix::new(4, 2, vec![0.5; 8])?),
///     labels: Labels::single(2, vec![0, 0, 1, 1])?,
///     split: Split::from_ids(4, &[0, 3], &[1], &[2])?,
/// };
/// dataset.check()?;
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Short name for messages.
    pub name: String,
    /// Row `v` lists the nodes that `v` reads; no loops, no duplicates.
    pub graph: Csr,
    /// Whether inverses were added.
    pub direction: Direction,
    /// What cleaning changed.
    pub cleaning: Cleaning,
    /// One row a node.
    pub features: Features,
    /// One label (or none) a node.
    pub labels: Labels,
    /// One role a node.
    pub split: Split,
}

impl Dataset {
    /// Number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.graph.n_rows()
    }

    /// Checks that all parts speak of the same nodes, no set is empty and features are finite.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check(&self) -> Result<(), GraphError> {
        self.check_fit()?;
        self.features.check_finite()
    }

    /// As [`Dataset::check`], of features whose values were checked when they were read.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check_fit(&self) -> Result<(), GraphError> {
        let expected = self.n_nodes();
        for (what, found) in [
            ("adjacency columns", self.graph.n_cols()),
            ("features", self.features.n_rows()),
            ("labels", self.labels.n_nodes()),
            ("split", self.split.roles().len()),
        ] {
            if found != expected {
                return Err(GraphError::LengthMismatch { what, expected, found });
            }
        }
        self.split.check_usable(&self.labels)
    }
}
