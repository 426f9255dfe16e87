//! What can be wrong with a data set on disk or with the words that describe one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sylvie_graph::GraphError;
use zip::result::ZipError;

/// A file, and the key in it where there is one: a member of an archive, an entry of a JSON map.
///
/// # Example
/// ```
/// use sylvie_data::Place;
///
/// let place = Place::key("photo.npz".as_ref(), "adj_indices");
/// assert_eq!(place.to_string(), "photo.npz, key `adj_indices`");
/// assert_eq!(Place::file("photo.npz".as_ref()).key, None);
/// ```
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
        f.write_str(&shown(&self.path))?;
        match &self.key {
            None => Ok(()),
            Some(key) => write!(f, ", key `{}`", escaped(key)),
        }
    }
}

/// A path for messages: control characters are escaped, so that it stays on its line.
///
/// # Example
/// ```
/// use sylvie_data::shown;
///
/// assert_eq!(shown("my\ngraph.npz".as_ref()), "my\\ngraph.npz");
/// ```
#[must_use]
pub fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// `text` with its control characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// So many of `what`, which is the plural.
fn counted(number: u64, what: &str) -> String {
    match (number, what, what.strip_suffix("ies")) {
        (1, "matrices", _) => "1 matrix".to_owned(),
        (1, _, Some(stem)) => format!("1 {stem}y"),
        (1, _, None) => format!("1 {}", what.strip_suffix('s').unwrap_or(what)),
        _ => format!("{number} {what}"),
    }
}

/// A sum of shares without the error of its last digits.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

/// Why a data set was not read.
///
/// Each message stands alone: it holds what a library said too (the fields named `problem`), so
/// `source()` is empty and a printed chain repeats nothing.
///
/// # Example
/// ```
/// use sylvie_data::{DataError, ReadOptions, read};
///
/// let error = read("no-such-folder", &ReadOptions::default()).unwrap_err();
/// assert!(matches!(error, DataError::NotFound { .. }));
/// assert_eq!(error.to_string(), "no-such-folder: no such file or folder");
///
/// let error = read("synthetic:nodes=many", &ReadOptions::default()).unwrap_err();
/// assert!(error.to_string().starts_with("setting `nodes=many` of a synthetic graph: expected"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Nothing lies at the path.
    #[error("{}: no such file or folder", shown(path))]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A folder where a file is expected, or the like.
    #[error("{}: {found} where {expected} is expected", shown(path))]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// What lies there.
        found: &'static str,
        /// What should.
        expected: &'static str,
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
        "{}: no known format: looked for a folder with indptr.npy and indices.npy (arrays), \
         adj_full.npz (graphsaint), raw/edge.csv.gz or raw/data.npz (ogb), reddit_graph.npz (reddit), \
         ind.NAME.graph (planetoid), edges.csv (edge-list) or edges.mtx (matrix-market), an npz with \
         node_features and edges (heterophilous), an npz with adj_data or adj_matrix.data \
         (gnn-benchmark); name one with --format {}",
        shown(path),
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
    /// Shares of a drawn split that leave a set empty.
    #[error(
        "shares of {train} that train and {val} that validate sum to {}: each must be above 0, and their sum \
         below 1, for the rest tests; as in random:0.6,0.2",
        rounded(train + val)
    )]
    SplitShares {
        /// Share that trains.
        train: f64,
        /// Share that validates.
        val: f64,
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
    #[error("{}: not a readable npz archive: {problem}", shown(path))]
    Archive {
        /// The file.
        path: PathBuf,
        /// What the zip library said.
        problem: ZipError,
    },
    /// A key that an npz must have.
    #[error("{}: no key {wanted}; the keys are: {found}", shown(path))]
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
    #[error("{place}: shape {found:?} where {expected} should be")]
    WrongShape {
        /// Where.
        place: Place,
        /// Its shape.
        found: Vec<usize>,
        /// The shape allowed.
        expected: String,
    },
    /// A value outside its range.
    #[error("{place}: {value} at position {position} where {expected} should be")]
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
    /// A field of a text file that cannot be used.
    #[error("{place}, line {line}: `{found}` where {expected} should be")]
    BadText {
        /// Where.
        place: Place,
        /// Line, counted from 1.
        line: u64,
        /// The field, or the line, cut short.
        found: String,
        /// What is allowed.
        expected: String,
    },
    /// More or fewer things in a file than there should be.
    #[error("{place}: {} where {expected} should be", counted(*found, what))]
    WrongCount {
        /// Where.
        place: Place,
        /// The things, in the plural.
        what: &'static str,
        /// How many there should be.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// A gzipped file that expands to more than any table of numbers does.
    #[error(
        "{place}: {stored} bytes expand to {expanded} and more, over {limit} times as many, which no \
         table of numbers does; unpack it first if it is none the less what it should be"
    )]
    Bomb {
        /// Where.
        place: Place,
        /// Bytes taken from the file.
        stored: u64,
        /// Bytes they gave.
        expanded: u64,
        /// The ratio allowed.
        limit: u64,
    },
    /// A pickle that is not one of a Planetoid set.
    #[error(
        "{}, byte {at}: {problem}; a pickle is a program, and of those only the ones that Planetoid \
         sets are made of are read",
        shown(path)
    )]
    Pickle {
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: usize,
        /// What is wrong.
        problem: String,
    },
    /// A folder that holds several data sets.
    #[error("{}: several data sets: {names}; add the name of one, as in {}", shown(path), example)]
    SeveralSets {
        /// The folder.
        path: PathBuf,
        /// Their names.
        names: String,
        /// A path that names one.
        example: String,
    },
    /// A data set that a format has no way to hold.
    #[error("the {format} layout cannot hold {what}; take --to arrays")]
    CannotHold {
        /// The format.
        format: crate::Format,
        /// What it has no place for.
        what: &'static str,
    },
    /// A place that is taken.
    #[error("{}: {found}; nothing is written over it", shown(path))]
    Occupied {
        /// The path.
        path: PathBuf,
        /// What lies there.
        found: &'static str,
    },
    /// A file that could not be written.
    #[error("{place}: cannot be written: {problem}")]
    Write {
        /// Where.
        place: Place,
        /// What the system or a library said.
        problem: io::Error,
    },
    /// A JSON file of another form; the message has line and column.
    #[error("{}: {problem}", shown(path))]
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
    /// A node that a set holds twice.
    #[error("{place}: node {node} at position {position} is in the set already")]
    DuplicateNode {
        /// Where.
        place: Place,
        /// Position in the stored order.
        position: usize,
        /// The node.
        node: u32,
    },
    /// A set of node numbers that are all 0 or 1.
    #[error(
        "{place}: {n_values} integers that are all 0 or 1 look like a mask, and integers are node \
         numbers here; save a mask as bool"
    )]
    LooksLikeMask {
        /// Where.
        place: Place,
        /// How many there are.
        n_values: usize,
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
    #[error(
        "{place}: no split {index}: splits are counted from 0 and there {} {n_splits}; see --split-index",
        if *n_splits == 1 { "is" } else { "are" }
    )]
    NoSuchSplit {
        /// Where.
        place: Place,
        /// The one asked for.
        index: usize,
        /// Splits in the file.
        n_splits: usize,
    },
    /// A split by classes of nodes that have several.
    #[error(
        "{place}: nodes have several labels; a split of so many nodes a class is for those with one"
    )]
    NoClassOfItsOwn {
        /// Where.
        place: Place,
    },
    /// A split by classes that leaves nothing to validate or to test.
    #[error(
        "{place}: --split per-class:{train},{val} takes {train} and {val} nodes of each class, and the largest class \
         has {} with a label, which leaves none to {}; take fewer, or shares, as in --split random:0.6,0.2",
        counted(*n_largest, "nodes"),
        if n_largest <= train { "validate" } else { "test" }
    )]
    ClassesTooSmall {
        /// Where.
        place: Place,
        /// Nodes of each class that train.
        train: u64,
        /// Nodes of each class that validate.
        val: u64,
        /// Nodes of the largest class.
        n_largest: u64,
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
