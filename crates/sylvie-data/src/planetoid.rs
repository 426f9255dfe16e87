//! The `planetoid` format: pickles `ind.NAME.{x,tx,allx,y,ty,ally,graph}` and `ind.NAME.test.index`.
//!
//! `allx` and `ally` are features and one-hot labels of the first nodes, of which the first, as many as
//! `y` has rows, train and the next 500 validate. Row `k` of `tx` and `ty` is node `test.index[k]`. Nodes
//! that are in no file have no features and no label. `graph` maps a node to the nodes it has edges to.

use std::fs;
use std::path::{Path, PathBuf};

use sylvie_graph::{Features, Labels, SparseMatrix, Split, UNLABELLED};

use crate::error::{DataError, Place};
use crate::pickle::{Pickle, Table};
use crate::raw::Raw;
use crate::sparse::check_features;
use crate::tables::read_ids;

/// What every file's name begins with.
const PREFIX: &str = "ind.";
/// The file that tells a set.
const GRAPH: &str = ".graph";
/// Nodes that validate, by the convention of those who use these sets.
const N_VAL: usize = 500;
/// Most nodes: far more than the pickles of one gigabyte describe.
const MAX_NODES: usize = 1 << 27;

/// The path of a set less the last word, `FOLDER/ind.NAME`: from that path, the path of one of its files, or a
/// folder with one set. `None` where there is no set at all.
///
/// # Errors
/// A folder with several.
pub(crate) fn stem(path: &Path) -> Result<Option<PathBuf>, DataError> {
    if path.is_dir() {
        return stem_in(path);
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
    let Some(words) = name.strip_prefix(PREFIX) else { return Ok(None) };
    let set = words.split('.').next().unwrap_or_default();
    let stem = path.with_file_name(format!("{PREFIX}{set}"));
    Ok(with(&stem, GRAPH).is_file().then_some(stem))
}

fn stem_in(folder: &Path) -> Result<Option<PathBuf>, DataError> {
    let io = |problem| DataError::Io { place: Place::file(folder), problem };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let set = name.to_str().and_then(|name| name.strip_suffix(GRAPH));
        names.extend(set.filter(|set| set.starts_with(PREFIX)).map(str::to_owned));
    }
    names.sort_unstable();
    match &names[..] {
        [] => Ok(None),
        [name] => Ok(Some(folder.join(name))),
        [first, ..] => Err(DataError::SeveralSets {
            path: folder.to_owned(),
            example: crate::shown(&folder.join(first)),
            names: names.join(", "),
        }),
    }
}

fn with(stem: &Path, suffix: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

/// Reads a set.
///
/// # Errors
/// No set there, a pickle that is not one of a set, or files that do not fit together.
pub(crate) fn read(path: &Path) -> Result<Raw, DataError> {
    let stem = stem(path)?.ok_or_else(|| DataError::NotFound { path: with(path, GRAPH) })?;
    let file = |word: &str| with(&stem, word);
    let sparse = |word: &str| Pickle::read(&file(word))?.sparse(&file(word));
    let table = |word: &str| Pickle::read(&file(word))?.table(&file(word));
    let (first, rest) = ((sparse(".allx")?, table(".ally")?), (sparse(".tx")?, table(".ty")?));
    let n_train = table(".y")?.n_rows;
    let test = read_ids(&file(".test.index"), MAX_NODES)?;

    let shapes = [&first, &rest].map(|(x, y)| (x.n_rows(), x.n_cols(), y.n_rows, y.n_cols));
    let (n_first, n_features, _, n_classes) = shapes[0];
    let fit = |&(x_rows, x_cols, y_rows, y_cols): &(usize, usize, usize, usize)| {
        x_rows == y_rows && x_cols == n_features && y_cols == n_classes
    };
    if !shapes.iter().all(fit) || test.len() != shapes[1].0 || n_train + N_VAL > n_first {
        let place = Place::file(&stem);
        let found = shapes.iter().flat_map(|s| [s.0, s.1, s.2, s.3]).chain([test.len(), n_train]);
        let expected = "rows and columns of allx, ally, tx and ty, lines of test.index and rows of y that \
                        fit, with 500 rows of allx after those of y,";
        let (found, expected) = (found.collect(), expected.to_owned());
        return Err(DataError::WrongShape { place, found, expected });
    }
    if let Some(position) = test.iter().position(|&node| (node as usize) < n_first) {
        let (place, value) = (Place::file(&file(".test.index")), test[position].to_string());
        let expected = format!("a node from {n_first}, after those of allx,");
        return Err(DataError::BadValue { place, position, value, expected });
    }
    let lists = Pickle::read(&file(GRAPH))?.lists(&file(GRAPH))?;
    let n_nodes = test.iter().map(|&node| node as usize + 1).max().unwrap_or(0).max(n_first);
    expect_reached(&file(GRAPH), n_nodes, lists.len())?;

    let rows = NodeRows { n_nodes, n_first, test: &test };
    let features =
        rows.features(&first.0, &rest.0).map_err(DataError::graph(&Place::file(&stem)))?;
    let features = check_features(&Place::file(&file(".allx")), Features::Sparse(features))?;
    let labels = rows.labels([(&first.1, file(".ally")), (&rest.1, file(".ty"))])?;
    let edges = lists.iter().flat_map(|(node, ends)| ends.iter().map(|&end| (*node, end)));
    let val: Vec<u32> = (n_train as u32..).take(N_VAL).collect();
    let train: Vec<u32> = (0..n_train as u32).collect();
    let split = Split::from_ids(n_nodes, &train, &val, &test)
        .map_err(DataError::graph(&Place::file(&stem)))?;
    let name = stem.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let edges_at = Place::file(&file(GRAPH));
    Ok(Raw { name, edges_at, edges: edges.collect(), features, labels, split })
}

/// The graph lists every node, so that a number in `test.index` makes no nodes of nothing.
fn expect_reached(path: &Path, n_nodes: usize, n_listed: usize) -> Result<(), DataError> {
    if n_nodes == n_listed {
        return Ok(());
    }
    let (expected, found) = (n_nodes as u64, n_listed as u64);
    Err(DataError::WrongCount { place: Place::file(path), what: "nodes", expected, found })
}

/// Which row of which file a node has.
struct NodeRows<'a> {
    n_nodes: usize,
    n_first: usize,
    test: &'a [u32],
}

impl NodeRows<'_> {
    /// For each node its row in the files of the first nodes and those of the test nodes put together.
    fn order(&self) -> Vec<Option<usize>> {
        let mut order = vec![None; self.n_nodes];
        for (row, slot) in order.iter_mut().enumerate().take(self.n_first) {
            *slot = Some(row);
        }
        for (row, &node) in self.test.iter().enumerate() {
            order[node as usize] = Some(self.n_first + row);
        }
        order
    }

    fn features(
        &self,
        first: &SparseMatrix,
        rest: &SparseMatrix,
    ) -> Result<SparseMatrix, sylvie_graph::GraphError> {
        let (mut indptr, mut indices, mut values) = (vec![0_u64], Vec::new(), Vec::new());
        for row in self.order() {
            if let Some(row) = row {
                let (columns, data) =
                    if row < self.n_first { first.row(row) } else { rest.row(row - self.n_first) };
                indices.extend_from_slice(columns);
                values.extend_from_slice(data);
            }
            indptr.push(indices.len() as u64);
        }
        SparseMatrix::new(first.n_cols(), &indptr, &indices, &values)
    }

    /// The one class of each row; a row of zeros has none.
    fn labels(&self, tables: [(&Table, PathBuf); 2]) -> Result<Labels, DataError> {
        let n_classes = tables[0].0.n_cols;
        let mut classes = Vec::new();
        for (table, path) in &tables {
            for (row, flags) in table.values.chunks_exact(n_classes.max(1)).enumerate() {
                let mut ones = flags.iter().enumerate().filter(|&(_, &flag)| flag != 0.0);
                let class = ones.next().map_or(UNLABELLED, |(class, _)| class as u32);
                if ones.next().is_some() || flags.iter().any(|&flag| flag != 0.0 && flag != 1.0) {
                    let place = Place::file(path);
                    let (position, value) = (row * n_classes, "a row of others".to_owned());
                    let expected = "zeros and a single one".to_owned();
                    return Err(DataError::BadValue { place, position, value, expected });
                }
                classes.push(class);
            }
        }
        let class_of = |row: Option<usize>| {
            row.and_then(|row| classes.get(row)).copied().unwrap_or(UNLABELLED)
        };
        let classes = self.order().into_iter().map(class_of).collect();
        Labels::single(n_classes as u32, classes)
            .map_err(DataError::graph(&Place::file(&tables[0].1)))
    }
}
