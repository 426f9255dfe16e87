//! The `edge-list` and `matrix-market` formats: folders of files that people make themselves.
//!
//! `edges.csv`, `edges.tsv` or `edges.txt` has a pair of node numbers from 0 a line, between commas or
//! blanks, or `edges.mtx` is a sparse matrix of Matrix Market; a pair or entry `(i, j)` is an edge from `i`
//! to `j`. `feat.npy` is `n x f`, or `feat.mtx` a sparse matrix. `labels.csv` has a class a line, or zeros
//! and ones. `train`, `val` and `test` are npy arrays as in the `arrays` format, or node numbers, one a
//! line, in `train.csv` and so on; without any of them the split is drawn. Text may be gzipped.

use std::path::{Path, PathBuf};

use sylvie_graph::{DenseMatrix, Features, Labels, Split};

use crate::error::{DataError, Place};
use crate::matrix_market;
use crate::npy::open_npy;
use crate::raw::{Raw, name_of};
use crate::sparse::check_features;
use crate::splits::{draw, read_set};
use crate::tables::{Extras, read_edges, read_ids, read_labels};

const EDGES: [&str; 6] =
    ["edges.csv", "edges.csv.gz", "edges.tsv", "edges.tsv.gz", "edges.txt", "edges.txt.gz"];
const MATRIX: [&str; 2] = ["edges.mtx", "edges.mtx.gz"];
const FEATURES: [&str; 2] = ["feat.mtx", "feat.mtx.gz"];
const LABELS: [&str; 2] = ["labels.csv", "labels.csv.gz"];

/// How the edges of a folder are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edges {
    /// Pairs of numbers.
    List,
    /// A matrix.
    Matrix,
}

impl Edges {
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::List => &EDGES,
            Self::Matrix => &MATRIX,
        }
    }

    /// Whether a folder has edges of this kind.
    pub(crate) fn are_in(self, folder: &Path) -> bool {
        first_there(folder, self.names()).is_some()
    }
}

fn first_there(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|path| path.exists())
}

/// The first of `names` that is there, or the first of them for a message.
fn one_of(folder: &Path, names: &[&str]) -> PathBuf {
    first_there(folder, names).unwrap_or_else(|| folder.join(names[0]))
}

/// Reads the folder; a split that is not there is drawn by `split_seed`.
///
/// # Errors
/// A file that is not there, cannot be read or does not fit the others.
pub(crate) fn read(folder: &Path, kind: Edges, split_seed: u64) -> Result<Raw, DataError> {
    let features = read_features(folder)?;
    let n_nodes = features.n_rows();
    let path = one_of(folder, kind.names());
    let edges = match kind {
        Edges::List => read_edges(&path, n_nodes, None, Extras::Comments)?,
        Edges::Matrix => matrix_market::read_edges(&path, n_nodes)?,
    };
    let labels = read_labels(&one_of(folder, &LABELS), Some(n_nodes), Extras::Comments)?;
    let split = read_split(folder, &labels, split_seed)?;
    Ok(Raw { name: name_of(folder), edges_at: Place::file(&path), edges, features, labels, split })
}

fn read_features(folder: &Path) -> Result<Features, DataError> {
    if let Some(path) = first_there(folder, &FEATURES) {
        let matrix = matrix_market::read_sparse(&path)?;
        return check_features(&Place::file(&path), Features::Sparse(matrix));
    }
    let array = open_npy(folder, "feat")?.dims(2)?.floats_of_file()?;
    let matrix = DenseMatrix::new(array.shape[0], array.shape[1], array.values)
        .map_err(DataError::graph(&array.place))?;
    check_features(&array.place, Features::Dense(matrix))
}

/// The sets of a split, and the file of each that is there.
fn split_files(folder: &Path) -> [(&'static str, Option<PathBuf>); 3] {
    ["train", "val", "test"].map(|set| {
        let names = [".npy", ".csv", ".csv.gz"].map(|suffix| format!("{set}{suffix}"));
        let path = names.iter().map(|name| folder.join(name)).find(|path| path.exists());
        (set, path)
    })
}

/// Whether a folder has files of a split.
pub(crate) fn has_split(folder: &Path) -> bool {
    split_files(folder).iter().any(|(_, path)| path.is_some())
}

fn read_split(folder: &Path, labels: &Labels, seed: u64) -> Result<Split, DataError> {
    let n_nodes = labels.n_nodes();
    let files = split_files(folder);
    if files.iter().all(|(_, path)| path.is_none()) {
        return Ok(draw(labels, seed));
    }
    let read = |(set, path): &(&str, Option<PathBuf>)| match path {
        Some(path) if path.extension().is_none_or(|extension| extension != "npy") => {
            read_ids(path, n_nodes)
        }
        _ => read_set(open_npy(folder, set)?, n_nodes),
    };
    let [train, val, test] = files.each_ref().map(read);
    Split::from_ids(n_nodes, &train?, &val?, &test?).map_err(DataError::graph(&Place::file(folder)))
}
