//! The `heterophilous` format: an npz with an edge list and several mask sets.
//!
//! `edges` is `e x 2`: a row `(i, j)` is an edge from `i` to `j`, each pair stored once.
//! `train_masks`, `val_masks` and `test_masks` are `splits x n`.

use std::path::Path;

use sylvie_graph::{DenseMatrix, Features, Split};

use crate::error::{DataError, Place};
use crate::labels;
use crate::npz::Archive;
use crate::raw::{Raw, name_of};
use crate::sparse::check_features;
use crate::splits::members;

/// Keys that together tell this format.
pub(crate) const KEYS: [&str; 3] = ["node_features", "node_labels", "edges"];

/// Reads the archive with its mask set `split_index`.
pub(crate) fn read(path: &Path, split_index: usize) -> Result<Raw, DataError> {
    let mut archive = Archive::open(path)?;
    let labels = labels::single(&archive.npy("node_labels")?.one_a_row()?.integers()?)?;
    let n_nodes = labels.n_nodes();

    let features = archive.npy("node_features")?.dims(2)?.floats()?;
    features.expect_rows(n_nodes, "as many as `node_labels` has")?;
    let matrix = DenseMatrix::new(n_nodes, features.shape[1], features.values)
        .map_err(DataError::graph(&features.place))?;
    let features = check_features(&features.place, Features::Dense(matrix))?;

    let ends = archive.npy("edges")?.dims(2)?.ids()?;
    if ends.shape[1] != 2 {
        let expected = "two columns".to_owned();
        return Err(DataError::WrongShape { place: ends.place, found: ends.shape, expected });
    }
    let edges = ends.values.chunks_exact(2).map(|ends| (ends[0], ends[1])).collect();

    let train = read_mask(&mut archive, "train_masks", split_index, n_nodes)?;
    let val = read_mask(&mut archive, "val_masks", split_index, n_nodes)?;
    let test = read_mask(&mut archive, "test_masks", split_index, n_nodes)?;
    let split = Split::from_ids(n_nodes, &train, &val, &test)
        .map_err(DataError::graph(&Place::file(path)))?;
    Ok(Raw { name: name_of(path), edges_at: ends.place, edges, features, labels, split })
}

fn read_mask(
    archive: &mut Archive,
    key: &str,
    index: usize,
    n_nodes: usize,
) -> Result<Vec<u32>, DataError> {
    let masks = archive.npy(key)?.dims(2)?.flags()?;
    if masks.shape[1] != n_nodes {
        let expected = format!("a column for each of {n_nodes} nodes");
        return Err(DataError::WrongShape { place: masks.place, found: masks.shape, expected });
    }
    if index >= masks.shape[0] {
        let (place, n_splits) = (masks.place, masks.shape[0]);
        return Err(DataError::NoSuchSplit { place, index, n_splits });
    }
    Ok(members(&masks.values[index * n_nodes..][..n_nodes]))
}
