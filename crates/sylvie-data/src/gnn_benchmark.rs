//! The `gnn-benchmark` format: an npz with a sparse adjacency, attributes and labels.
//!
//! Keys are flat (`adj_data`, `attr_indices`) or dotted (`adj_matrix.data`, `attr_matrix.indices`).
//! Attributes are compressed rows, or the dense `attr_matrix`; `labels` is an integer a node, or, as
//! compressed rows `labels_*`, multi-labels. Column `j` in row `i` of the adjacency is an edge from `i`
//! to `j`. A `NAME_split.npz` beside it holds `train`, `valid` and `test`; without one the split is
//! drawn.

use std::path::{Path, PathBuf};

use sylvie_graph::{DenseMatrix, Features, Labels, Split};

use crate::error::{DataError, Place};
use crate::labels;
use crate::npz::Archive;
use crate::raw::{Raw, name_of};
use crate::sparse::{check_features, read_csr_entries, read_csr_matrix};
use crate::splits::{draw, read_set};

/// Keys of which one tells this format.
pub(crate) const ADJACENCY_KEYS: [&str; 3] =
    ["adj_indptr", "adj_matrix.indptr", "adj_matrix_indptr"];
const ATTRIBUTE_KEYS: [&str; 4] =
    ["attr_indptr", "attr_matrix.indptr", "attr_matrix_indptr", "attr_matrix"];
const LABEL_KEYS: [&str; 3] = ["labels", "labels_indptr", "labels.indptr"];

/// Reads the archive, and the split beside it if there is one.
pub(crate) fn read(path: &Path, split_seed: u64) -> Result<Raw, DataError> {
    let mut archive = Archive::open(path)?;
    let key = archive.first_of(&ADJACENCY_KEYS)?;
    let prefix = prefix_of(key);
    let edges_at = archive.place(&format!("{prefix}indices"));
    let adjacency = read_csr_entries(&mut archive, prefix)?;
    let n_nodes = adjacency.n_rows;
    if adjacency.n_cols != n_nodes {
        let place = archive.place(&format!("{prefix}shape"));
        let found = vec![n_nodes, adjacency.n_cols];
        let expected = "as many columns as rows".to_owned();
        return Err(DataError::WrongShape { place, found, expected });
    }
    let features = read_features(&mut archive)?;
    expect_nodes(&archive.place("attributes"), features.n_rows(), n_nodes)?;
    let labels = read_labels(&mut archive)?;
    expect_nodes(&archive.place("labels"), labels.n_nodes(), n_nodes)?;
    let split = match split_beside(path) {
        Some(beside) => read_split(&beside, n_nodes)?,
        None => draw(&labels, split_seed),
    };
    Ok(Raw { name: name_of(path), edges_at, edges: adjacency.pairs, features, labels, split })
}

fn prefix_of(key: &str) -> &str {
    key.strip_suffix("indptr").unwrap_or(key)
}

fn expect_nodes(place: &Place, found: usize, n_nodes: usize) -> Result<(), DataError> {
    if found == n_nodes {
        return Ok(());
    }
    let expected = format!("{n_nodes} rows, as many as the adjacency has,");
    Err(DataError::WrongShape { place: place.clone(), found: vec![found], expected })
}

fn read_features(archive: &mut Archive) -> Result<Features, DataError> {
    let key = archive.first_of(&ATTRIBUTE_KEYS)?;
    if let Some(prefix) = key.strip_suffix("indptr") {
        let matrix = read_csr_matrix(archive, prefix)?;
        let place = archive.place(&format!("{prefix}data"));
        return check_features(&place, Features::Sparse(matrix));
    }
    let values = archive.npy(key)?.dims(2)?.floats()?;
    let matrix = DenseMatrix::new(values.shape[0], values.shape[1], values.values)
        .map_err(DataError::graph(&values.place))?;
    check_features(&values.place, Features::Dense(matrix))
}

fn read_labels(archive: &mut Archive) -> Result<Labels, DataError> {
    let key = archive.first_of(&LABEL_KEYS)?;
    if let Some(prefix) = key.strip_suffix("indptr") {
        let matrix = read_csr_matrix(archive, prefix)?;
        return labels::multi_from_sparse(&archive.place(&format!("{prefix}data")), &matrix);
    }
    let npy = archive.npy(key)?;
    if npy.has_flag_rows() {
        labels::multi(npy.flags()?)
    } else {
        labels::single(&npy.one_a_row()?.integers()?)
    }
}

/// The file of its split, where there is one.
pub(crate) fn split_beside(path: &Path) -> Option<PathBuf> {
    let mut name = path.file_stem()?.to_owned();
    name.push("_split.npz");
    let beside = path.with_file_name(name);
    beside.exists().then_some(beside)
}

fn read_split(path: &Path, n_nodes: usize) -> Result<Split, DataError> {
    let mut archive = Archive::open(path)?;
    let val_key = archive.first_of(&["valid", "val"])?;
    let train = read_set(archive.npy("train")?, n_nodes)?;
    let val = read_set(archive.npy(val_key)?, n_nodes)?;
    let test = read_set(archive.npy("test")?, n_nodes)?;
    Split::from_ids(n_nodes, &train, &val, &test).map_err(DataError::graph(&Place::file(path)))
}
