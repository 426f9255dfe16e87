//! The `arrays` format: a folder of npy files.
//!
//! `indptr` and `indices` are the adjacency in compressed rows: column `j` in row `i` is an edge from
//! `i` to `j`. `feat` is `n x f`. `label` has an integer a node (-1: none), or a row of zeros and ones.
//! `train`, `val` and `test` are bool masks, or lists of node numbers.

use std::path::Path;

use sylvie_graph::{DenseMatrix, Features, Labels, Split};

use crate::error::{DataError, Place};
use crate::labels;
use crate::npy::open_npy;
use crate::raw::{Raw, name_of};
use crate::sparse::{check_features, compressed_pairs};
use crate::splits::read_set;

/// Reads the folder.
pub(crate) fn read(folder: &Path) -> Result<Raw, DataError> {
    let indptr = open_npy(folder, "indptr")?.dims(1)?.offsets()?;
    let indices = open_npy(folder, "indices")?.dims(1)?.ids()?;
    let n_nodes = indptr.values.len().saturating_sub(1);
    let edges = compressed_pairs(&indptr, &indices, n_nodes)?;
    let edges_at = indices.place;

    let features = open_npy(folder, "feat")?.dims(2)?.floats_of_file()?;
    features.expect_rows(n_nodes, "as many as `indptr` has")?;
    let matrix = DenseMatrix::new(n_nodes, features.shape[1], features.values)
        .map_err(DataError::graph(&features.place))?;
    let features = check_features(&features.place, Features::Dense(matrix))?;

    let labels = read_labels(folder, n_nodes)?;
    let train = read_set(open_npy(folder, "train")?, n_nodes)?;
    let val = read_set(open_npy(folder, "val")?, n_nodes)?;
    let test = read_set(open_npy(folder, "test")?, n_nodes)?;
    let split = Split::from_ids(n_nodes, &train, &val, &test)
        .map_err(DataError::graph(&Place::file(folder)))?;
    Ok(Raw { name: name_of(folder), edges_at, edges, features, labels, split })
}

fn read_labels(folder: &Path, n_nodes: usize) -> Result<Labels, DataError> {
    let npy = open_npy(folder, "label")?;
    if npy.has_flag_rows() {
        let rows = npy.flags_or_missing()?;
        rows.expect_rows(n_nodes, "as many as `indptr` has")?;
        return labels::multi(rows);
    }
    let classes = npy.one_a_row()?.integers()?;
    classes.expect_rows(n_nodes, "as many as `indptr` has")?;
    labels::single(&classes)
}
