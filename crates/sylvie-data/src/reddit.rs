//! The `reddit` format: the two archives of the Reddit graph as DGL publishes it.
//!
//! `reddit_graph.npz` is a scipy matrix: column `j` in row `i` is an edge from `i` to `j`.
//! `reddit_data.npz` has a row of `feature` and a class in `label` a node, and `node_types`: 1 trains, 2
//! validates, 3 tests, others are in no set.

use std::path::Path;

use sylvie_graph::{DenseMatrix, Features, Role, Split};

use crate::error::{DataError, Place};
use crate::labels;
use crate::npz::Archive;
use crate::raw::{Raw, name_of};
use crate::sparse::{check_features, read_scipy_entries};

/// The file that tells this format.
pub(crate) const GRAPH_FILE: &str = "reddit_graph.npz";
/// The other file.
pub(crate) const DATA_FILE: &str = "reddit_data.npz";

/// Reads the folder.
///
/// # Errors
/// A file that is not there, cannot be read or does not fit the other.
pub(crate) fn read(folder: &Path) -> Result<Raw, DataError> {
    let mut archive = Archive::open(&folder.join(DATA_FILE))?;
    let labels = labels::single(&archive.npy("label")?.classes()?)?;
    let n_nodes = labels.n_nodes();
    let types = archive.npy("node_types")?.one_a_row()?.integers()?;
    types.expect_rows(n_nodes, "as many as `label` has")?;
    let split = Split::new(types.values.iter().map(|&number| role(number)).collect());
    let features = archive.npy("feature")?.dims(2)?.floats()?;
    features.expect_rows(n_nodes, "as many as `label` has")?;
    let matrix = DenseMatrix::new(n_nodes, features.shape[1], features.values)
        .map_err(DataError::graph(&features.place))?;
    let features = check_features(&features.place, Features::Dense(matrix))?;

    let mut archive = Archive::open(&folder.join(GRAPH_FILE))?;
    let adjacency = read_scipy_entries(&mut archive)?;
    let found = vec![adjacency.n_rows, adjacency.n_cols];
    if found != [n_nodes, n_nodes] {
        let expected = format!("{n_nodes} x {n_nodes}, by the rows of `label`,");
        return Err(DataError::WrongShape { place: archive.place("shape"), found, expected });
    }
    let edges_at = Place::file(archive.path());
    Ok(Raw { name: name_of(folder), edges_at, edges: adjacency.pairs, features, labels, split })
}

const fn role(number: i64) -> Role {
    match number {
        1 => Role::Train,
        2 => Role::Val,
        3 => Role::Test,
        _ => Role::None,
    }
}

/// The number that stands for a role.
pub(crate) const fn number(role: Role) -> i32 {
    match role {
        Role::None => 0,
        Role::Train => 1,
        Role::Val => 2,
        Role::Test => 3,
    }
}
