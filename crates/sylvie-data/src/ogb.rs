//! The `ogb` format: node property prediction folders of the Open Graph Benchmark.
//!
//! As text: `raw/edge.csv` (pairs `i,j`: an edge from `i` to `j`), `raw/node-feat.csv`,
//! `raw/node-label.csv`, `raw/num-node-list.csv`, `raw/num-edge-list.csv`. As arrays: `raw/data.npz` with
//! `edge_index` (2 x e), `node_feat` and `num_nodes_list`, and `raw/node-label.npz` with `node_label`.
//! Splits are folders below `split` with `train.csv`, `valid.csv` and `test.csv`. Text may be
//! gzipped. Without the folder the split is drawn.

use std::fs;
use std::path::{Path, PathBuf};

use sylvie_graph::{DenseMatrix, Features, Labels, Split};

use crate::error::{DataError, Place};
use crate::labels;
use crate::npz::Archive;
use crate::raw::{Raw, name_of};
use crate::sparse::check_features;
use crate::splits::draw;
use crate::tables::{Extras, read_count, read_edges, read_features, read_ids, read_labels};

/// Where everything but splits lies.
pub(crate) const RAW: &str = "raw";
/// Where splits lie.
pub(crate) const SPLIT: &str = "split";
const ARRAYS: &str = "data.npz";

/// The file `name` of `folder`, gzipped or not.
pub(crate) fn text_file(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(name);
    let gzipped = folder.join(format!("{name}.gz"));
    if !gzipped.exists() && plain.exists() { plain } else { gzipped }
}

/// Whether a folder is of this format.
pub(crate) fn is_here(folder: &Path) -> bool {
    let raw = folder.join(RAW);
    raw.join(ARRAYS).is_file() || text_file(&raw, "edge.csv").is_file()
}

/// Whether a folder has splits.
pub(crate) fn has_split(folder: &Path) -> bool {
    folder.join(SPLIT).exists()
}

/// Reads the folder with the split that is `split_index`-th by name; one that is not there is drawn by `split_seed`.
///
/// # Errors
/// A file that is not there, cannot be read or does not fit the others.
pub(crate) fn read(folder: &Path, split_index: usize, split_seed: u64) -> Result<Raw, DataError> {
    let raw = folder.join(RAW);
    let contents = if raw.join(ARRAYS).is_file() { read_arrays(&raw)? } else { read_text(&raw)? };
    let Contents { edges_at, edges, features, labels } = contents;
    let split = match has_split(folder) || split_index > 0 {
        true => read_split(&folder.join(SPLIT), split_index, labels.n_nodes())?,
        false => draw(&labels, split_seed),
    };
    Ok(Raw { name: name_of(folder), edges_at, edges, features, labels, split })
}

/// What lies in `raw`.
struct Contents {
    edges_at: Place,
    edges: Vec<(u32, u32)>,
    features: Features,
    labels: Labels,
}

fn read_text(raw: &Path) -> Result<Contents, DataError> {
    let file = |name: &str| text_file(raw, name);
    // Labels first: nothing is expected of a number of nodes that no lines stand for.
    let labels = read_labels(&file("node-label.csv"), None, Extras::None)?;
    let n_nodes = labels.n_nodes();
    let stated = read_count(&file("num-node-list.csv"))?;
    if stated != n_nodes as u64 {
        let place = Place::file(&file("node-label.csv"));
        let (what, found) = ("rows", n_nodes as u64);
        return Err(DataError::WrongCount { place, what, expected: stated, found });
    }
    let n_edges = read_count(&file("num-edge-list.csv"))?;
    let edges = read_edges(&file("edge.csv"), n_nodes, Some(n_edges), Extras::None)?;
    let features = read_features(&file("node-feat.csv"), n_nodes)?;
    Ok(Contents { edges_at: Place::file(&file("edge.csv")), edges, features, labels })
}

fn read_arrays(raw: &Path) -> Result<Contents, DataError> {
    let labels = read_label_array(&raw.join("node-label.npz"))?;
    let n_nodes = labels.n_nodes();
    let mut archive = Archive::open(&raw.join(ARRAYS))?;
    let stated = archive.npy("num_nodes_list")?.offsets()?;
    if stated.values != [n_nodes as u64] {
        let (place, value) =
            (stated.place, format!("{:?}", &stated.values[..stated.values.len().min(4)]));
        let expected = format!("the one number {n_nodes}, the rows of node-label.npz,");
        return Err(DataError::BadValue { place, position: 0, value, expected });
    }
    let ends = archive.npy("edge_index")?.dims(2)?.ids()?;
    if ends.shape[0] != 2 {
        let expected = "two rows".to_owned();
        return Err(DataError::WrongShape { place: ends.place, found: ends.shape, expected });
    }
    let (sources, targets) = ends.values.split_at(ends.shape[1]);
    let edges = sources.iter().copied().zip(targets.iter().copied()).collect();
    let features = archive.npy("node_feat")?.dims(2)?.floats()?;
    features.expect_rows(n_nodes, "as many as node-label.npz has")?;
    let matrix = DenseMatrix::new(n_nodes, features.shape[1], features.values)
        .map_err(DataError::graph(&features.place))?;
    let features = check_features(&features.place, Features::Dense(matrix))?;
    Ok(Contents { edges_at: ends.place, edges, features, labels })
}

fn read_label_array(path: &Path) -> Result<Labels, DataError> {
    let mut archive = Archive::open(path)?;
    let npy = archive.npy("node_label")?;
    if npy.n_columns() == 1 {
        labels::single(&npy.classes()?)
    } else {
        labels::multi(npy.dims(2)?.flags_or_missing()?)
    }
}

fn read_split(folder: &Path, index: usize, n_nodes: usize) -> Result<Split, DataError> {
    let io = |problem| DataError::Io { place: Place::file(folder), problem };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::open(folder))? {
        let path = entry.map_err(io)?.path();
        if path.is_dir() {
            names.push(path);
        }
    }
    names.sort_unstable();
    let Some(chosen) = names.get(index) else {
        let (place, n_splits) = (Place::file(folder), names.len());
        return Err(DataError::NoSuchSplit { place, index, n_splits });
    };
    let [train, val, test] = ["train.csv", "valid.csv", "test.csv"]
        .map(|name| read_ids(&text_file(chosen, name), n_nodes));
    Split::from_ids(n_nodes, &train?, &val?, &test?).map_err(DataError::graph(&Place::file(chosen)))
}
