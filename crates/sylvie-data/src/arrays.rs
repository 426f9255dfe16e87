//! The `arrays` format: a folder of npy files.
//!
//! `indptr` and `indices` are the adjacency in compressed rows: column `j` in row `i` is an edge from
//! `i` to `j`. `feat` is `n x f`. `label` has an integer a node (-1: none), or a row of zeros and ones.
//! `train`, `val` and `test` are bool masks, or lists of node numbers; without any of them the split is drawn.

use std::path::Path;

use sylvie_graph::{DenseMatrix, Features, Labels, Split};

use crate::error::{DataError, Place};
use crate::labels;
use crate::npy::open_npy;
use crate::raw::{Raw, name_of};
use crate::sparse::{check_features, compressed_pairs};
use crate::splits::{draw, read_set};

const SETS: [&str; 3] = ["train", "val", "test"];

/// Whether a folder has files of a split.
pub(crate) fn has_split(folder: &Path) -> bool {
    SETS.iter().any(|set| folder.join(format!("{set}.npy")).exists())
}

/// Reads the folder; a split that is not there is drawn by `split_seed`.
pub(crate) fn read(folder: &Path, split_seed: u64) -> Result<Raw, DataError> {
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
    let split = read_split(folder, &labels, split_seed)?;
    Ok(Raw { name: name_of(folder), edges_at, edges, features, labels, split })
}

fn read_split(folder: &Path, labels: &Labels, seed: u64) -> Result<Split, DataError> {
    if !has_split(folder) {
        return Ok(draw(labels, seed));
    }
    let n_nodes = labels.n_nodes();
    let [train, val, test] = SETS.map(|set| read_set(open_npy(folder, set)?, n_nodes));
    Split::from_ids(n_nodes, &train?, &val?, &test?).map_err(DataError::graph(&Place::file(folder)))
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
