//! The `graphsaint` format: a folder with adj_full.npz, role.json, class_map.json and feats.npy.
//!
//! `adj_full.npz` is a scipy matrix: column `j` in row `i` is an edge from `i` to `j`. `role.json` lists
//! the nodes of `tr`, `va` and `te`; without it the split is drawn. `class_map.json` gives each node a class, under any integers, or a
//! list of zeros and ones. Features are as stored; this format's users standardise them.

use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use sylvie_graph::{DenseMatrix, Features, Split};

use crate::class_map::read_labels;
use crate::error::{DataError, Place};
use crate::file;
use crate::npy::open_npy;
use crate::npz::Archive;
use crate::raw::{Raw, name_of};
use crate::sparse::{check_features, read_scipy_entries};
use crate::splits::{check_ids, draw};

/// The file that tells this format.
pub(crate) const ADJACENCY_FILE: &str = "adj_full.npz";
const ROLES_FILE: &str = "role.json";

#[derive(Deserialize)]
struct Roles {
    tr: Vec<u32>,
    va: Vec<u32>,
    te: Vec<u32>,
}

/// Reads the folder.
pub(crate) fn read(folder: &Path, split_seed: u64) -> Result<Raw, DataError> {
    let features = open_npy(folder, "feats")?.dims(2)?.floats_of_file()?;
    let (n_nodes, n_cols) = (features.shape[0], features.shape[1]);
    let matrix = DenseMatrix::new(n_nodes, n_cols, features.values)
        .map_err(DataError::graph(&features.place))?;
    let features = check_features(&features.place, Features::Dense(matrix))?;

    let mut archive = Archive::open(&folder.join(ADJACENCY_FILE))?;
    let adjacency = read_scipy_entries(&mut archive)?;
    let found = vec![adjacency.n_rows, adjacency.n_cols];
    if found != [n_nodes, n_nodes] {
        let expected = format!("{n_nodes} x {n_nodes}, by the rows of feats.npy,");
        return Err(DataError::WrongShape { place: archive.place("shape"), found, expected });
    }
    let labels = read_labels(&folder.join("class_map.json"), n_nodes)?;
    let split = match has_split(folder) {
        true => read_split(&folder.join(ROLES_FILE), n_nodes)?,
        false => draw(&labels, split_seed),
    };
    let edges_at = Place::file(archive.path());
    Ok(Raw { name: name_of(folder), edges_at, edges: adjacency.pairs, features, labels, split })
}

/// Whether a folder has the file of a split.
pub(crate) fn has_split(folder: &Path) -> bool {
    folder.join(ROLES_FILE).exists()
}

fn read_split(path: &Path, n_nodes: usize) -> Result<Split, DataError> {
    let file = file::open(path)?;
    let roles: Roles = serde_json::from_reader(BufReader::new(file))
        .map_err(|problem| DataError::Json { path: path.to_owned(), problem })?;
    for (key, ids) in [("tr", &roles.tr), ("va", &roles.va), ("te", &roles.te)] {
        check_ids(&Place::key(path, key), ids, n_nodes)?;
    }
    Split::from_ids(n_nodes, &roles.tr, &roles.va, &roles.te)
        .map_err(DataError::graph(&Place::file(path)))
}
