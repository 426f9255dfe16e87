//! What can be wrong with a data set on disk or with the words that describe one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sylvie_graph::GraphError;
use zip::result::ZipError;

/// A file, and the key in it where there is one: a member of an archive, an entry of a JSON map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File or folder.
    pub path: PathBuf,
    /// Key in the file.
    pub key: Option<String>,
}

impl Place {
    /// A whole file or folder.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self { path: path.to_owned(), key: None }
    }

    /// A key of a file.
    #[must_use]
    pub fn key(path: &Path, key: impl Into<String>) -> Self {
        Self { path: path.to_owned(), key: Some(key.into()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.key {
            None => Ok(()),
            Some(key) => write!(f, ", key `{key}`"),
        }
    }
}

/// Why a data set was not read.
///
/// Each message stands alone: it holds what a library said too (the fields named `problem`), so
/// `source()` is empty and a printed chain repeats nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Nothing lies at the path.
    #[error("{}: no such file or folder", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The system could not read.
    #[error("{place}: {problem}")]
    Io {
        /// Where.
        place: Place,
        /// What the system said.
        problem: io::Error,
    },
    /// The path matches no format.
    #[error(
        "{}: no known format: looked for a folder with indptr.npy and indices.npy (arrays), a \
         folder with adj_full.npz (graphsaint), an npz with node_features and edges \
         (heterophilous), an npz with adj_data or adj_matrix.data (gnn-benchmark); name one with \
         --format {}",
        path.display(),
        crate::Format::CHOICES
    )]
    UnknownFormat {
        /// The path.
        path: PathBuf,
    },
    /// A word that is none of those allowed.
    #[error("unknown {what} `{given}`: allowed are {choices}")]
    UnknownWord {
        /// What the word should name.
        what: &'static str,
        /// The word.
        given: String,
        /// The words allowed.
        choices: &'static str,
    },
    /// A setting of a generated graph that cannot be used.
    #[error("setting `{key}={value}` of a synthetic graph: expected {expected}")]
    Setting {
        /// Its key.
        key: String,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// An npz that is no readable zip archive.
    #[error("{}: not a readable npz archive: {problem}", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// What the zip library said.
        problem: ZipError,
    },
    /// A key that an npz must have.
    #[error("{}: no key {wanted}; the keys are: {found}", path.display())]
    MissingKey {
        /// The file.
        path: PathBuf,
        /// The keys of which one must be there.
        wanted: String,
        /// The keys that are there.
        found: String,
    },
    /// A member that claims to expand to more than its bytes can.
    #[error("{place}: claims {claimed} bytes, more than its {stored} stored bytes can expand to")]
    ImpossibleSize {
        /// Where.
        place: Place,
        /// Bytes claimed.
        claimed: u64,
        /// Bytes in the archive.
        stored: u64,
    },
    /// The header of an npy array.
    #[error("{place}: not a readable npy header: {problem}")]
    Header {
        /// Where.
        place: Place,
        /// What is wrong with it.
        problem: String,
    },
    /// Fewer or more bytes than an array's header announces.
    #[error(
        "{place}: {found} bytes of values where the header announces {expected}: the file is \
         incomplete or damaged"
    )]
    WrongLength {
        /// Where.
        place: Place,
        /// Bytes announced.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// A value that could not be read.
    #[error("{place}: cannot read the value at position {position}: {problem}")]
    Unreadable {
        /// Where.
        place: Place,
        /// Position in the stored order.
        position: usize,
        /// What the system or the zip library said.
        problem: io::Error,
    },
    /// An array of another type.
    #[error("{place}: type {found} where {expected} are expected")]
    WrongType {
        /// Where.
        place: Place,
        /// Its type as numpy writes it.
        found: String,
        /// The types allowed.
        expected: &'static str,
    },
    /// An array of another shape.
    #[error("{place}: shape {found:?} where {expected} is expected")]
    WrongShape {
        /// Where.
        place: Place,
        /// Its shape.
        found: Vec<usize>,
        /// The shape allowed.
        expected: String,
    },
    /// A value outside its range.
    #[error("{place}: {value} at position {position} where {expected} is expected")]
    BadValue {
        /// Where.
        place: Place,
        /// Position in the stored order.
        position: usize,
        /// The value.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// A JSON file of another form; the message has line and column.
    #[error("{}: {problem}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the JSON library said.
        problem: serde_json::Error,
    },
    /// An entry that is given twice.
    #[error("{place}: given twice")]
    DuplicateEntry {
        /// Where.
        place: Place,
    },
    /// A node without an entry.
    #[error("{place}: no entry for node {node}")]
    MissingEntry {
        /// Where.
        place: Place,
        /// The first such node.
        node: usize,
    },
    /// A mask set that is not there.
    #[error("{place}: no split {index}, there are {n_splits}, counted from 0; see --split-index")]
    NoSuchSplit {
        /// Where.
        place: Place,
        /// The one asked for.
        index: usize,
        /// Splits in the file.
        n_splits: usize,
    },
    /// A sparse matrix that would be nearly all zeros when dense.
    #[error(
        "{place}: {n_rows} x {n_cols} with {n_stored} stored values is too empty to be made dense"
    )]
    TooSparse {
        /// Where.
        place: Place,
        /// Rows.
        n_rows: usize,
        /// Columns.
        n_cols: usize,
        /// Stored values.
        n_stored: usize,
    },
    /// Values that do not describe a graph data set.
    #[error("{place}: {problem}")]
    Graph {
        /// Where.
        place: Place,
        /// What does not hold.
        problem: GraphError,
    },
}

impl DataError {
    /// For `map_err`: a graph error at `place`.
    pub(crate) fn graph(place: &Place) -> impl Fn(GraphError) -> Self {
        move |problem| Self::Graph { place: place.clone(), problem }
    }

    /// For `map_err`: a failed open, told apart by whether anything lies there.
    pub(crate) fn open(path: &Path) -> impl Fn(io::Error) -> Self {
        move |problem| match problem.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path: path.to_owned() },
            _ => Self::Io { place: Place::file(path), problem },
        }
    }
}
