//! What every reader hands over, and how it becomes a data set.

use std::path::Path;

use sylvie_graph::{Dataset, Direction, Features, Labels, Split, clean_edges};

use crate::error::{DataError, Place};

/// A data set as stored: edges are not cleaned, sizes not compared.
pub(crate) struct Raw {
    pub(crate) name: String,
    /// Where the edges were read, for messages.
    pub(crate) edges_at: Place,
    /// Pairs (source, target).
    pub(crate) edges: Vec<(u32, u32)>,
    pub(crate) features: Features,
    pub(crate) labels: Labels,
    pub(crate) split: Split,
}

impl Raw {
    /// Cleans the edges of a graph with as many nodes as it has labels.
    ///
    /// # Errors
    /// An edge with a node that is not there.
    pub(crate) fn clean(self, direction: Direction) -> Result<Dataset, DataError> {
        let Self { name, edges_at, edges, features, labels, split } = self;
        let (graph, cleaning) = clean_edges(labels.n_nodes(), &edges, direction)
            .map_err(DataError::graph(&edges_at))?;
        Ok(Dataset { name, graph, direction, cleaning, features, labels, split })
    }
}

/// The last part of a path without its extension: a name for messages.
pub(crate) fn name_of(path: &Path) -> String {
    // `.` and `..` have no last part of their own.
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full.file_stem().unwrap_or(full.as_os_str()).to_string_lossy().into_owned()
}
