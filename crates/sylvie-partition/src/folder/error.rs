//! Why a partition folder was not written or read.

use std::io;
use std::path::{Path, PathBuf};

use sylvie_graph::GraphError;

use super::manifest::VERSION;

/// What can be done about a file that is not the one that was written.
const REMEDY: &str = "copy the whole folder again, or write it anew with `sylvie partition --out`";

/// A file or folder, and what is wrong with it.
///
/// The message stands alone: it holds what the system or a library said too, so `source()` is empty and
/// a printed chain repeats nothing.
///
/// # Example
/// ```
/// use sylvie_partition::{FolderFault, PartitionFolder};
///
/// let error = PartitionFolder::open("no/such.parts".as_ref()).unwrap_err();
/// assert!(matches!(error.fault, FolderFault::Missing));
/// assert!(error.to_string().starts_with("no/such.parts: not there; a partition folder holds"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", shown(path))]
pub struct FolderError {
    /// File or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: FolderFault,
}

/// What is wrong with a file or folder.
///
/// # Example
/// ```
/// use std::fs;
/// use sylvie_partition::{About, Existing, FolderFault, NewFolder, PartitionFolder};
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// # use sylvie_partition::{Contiguous, Partitioner};
/// # let (graph, cleaning) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// # let dataset = Dataset {
/// #     name: "path".to_owned(),
/// #     direction: Direction::Symmetric,
/// #     cleaning,
/// #     features: Features::Dense(DenseMatrix::new(4, 1, vec![0.0, 1.0, 2.0, 3.0])?),
/// #     labels: Labels::single(2, vec![0, 0, 1, 1])?,
/// #     split: Split::new(vec![Role::Train, Role::Val, Role::Test, Role::Train]),
/// #     graph,
/// # };
/// # let assignment = Contiguous.partition(&dataset.graph, &[true, false, false, true], 2)?;
/// # let folder = tempfile::tempdir()?;
/// # let dir = folder.path().join("path.parts");
///
/// NewFolder::create(&dir, Existing::Keep)?.write(&dataset, &assignment, &About::default())?;
/// // The last byte of a part, lost on the way.
/// let path = dir.join("part-0001.safetensors");
/// let mut bytes = fs::read(&path)?;
/// let written = bytes.len() as u64;
/// bytes.pop();
/// fs::write(&path, bytes)?;
///
/// let folder = PartitionFolder::open(&dir)?;
/// assert!(folder.read_part(0).is_ok());
/// let error = folder.read_part(1).unwrap_err();
/// assert_eq!(error.path, path);
/// assert!(matches!(error.fault, FolderFault::Length { expected, found }
///     if (expected, found) == (written, written - 1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderFault {
    /// The system could not read or write.
    #[error("{problem}")]
    Io {
        /// What it said.
        problem: io::Error,
    },
    /// Nothing is there.
    #[error(
        "not there; a partition folder holds manifest.json and a file a part, and `sylvie partition \
         --out` writes one"
    )]
    Missing,
    /// Something other than a folder.
    #[error("not a folder")]
    NotAFolder,
    /// Something other than a regular file.
    #[error("not a regular file; {REMEDY}")]
    NotAFile,
    /// A path that ends in no name, so that nothing can be made there.
    #[error("does not end in a name for a folder")]
    NoName,
    /// A link to what is not there.
    #[error("a link that leads nowhere")]
    DanglingLink,
    /// The folder to write is there and not empty.
    #[error("is not empty; --overwrite replaces the partition in it")]
    Exists,
    /// The folder to replace holds something that is no file of a partition.
    #[error(
        "holds {}, which is no file of a partition; --overwrite replaces partition folders only",
        escaped(found)
    )]
    NotReplaceable {
        /// Its name.
        found: String,
    },
    /// The folder to replace holds no manifest of a partition.
    #[error(
        "is not empty and holds no manifest.json of a partition; --overwrite replaces partition folders \
         only"
    )]
    NoManifest,
    /// Another partition is being written there.
    #[error("another partition is being written there")]
    Busy,
    /// A manifest that does not parse.
    #[error("no manifest of a partition: {}; {REMEDY}", escaped(&problem.to_string()))]
    Json {
        /// What the library said.
        problem: serde_json::Error,
    },
    /// A manifest of another program.
    #[error("no manifest of a partition: format `{}`", escaped(found))]
    Foreign {
        /// What it says that it is.
        found: String,
    },
    /// A version of the format that is not read.
    #[error(
        "version {found} of the format, and this program reads version {VERSION}; write the folder anew \
         with this program's `sylvie partition --out`"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// Numbers of the manifest that contradict each other, or others of the part's file.
    #[error("{found} {what} where {expected} are expected; {REMEDY}")]
    Count {
        /// Of what.
        what: &'static str,
        /// What the rest implies.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// A file name that the format does not have.
    #[error("names a file `{}` in the place of {expected}; {REMEDY}", escaped(found))]
    FileName {
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// More or fewer bytes than were written.
    #[error("{found} bytes where {expected} were written; {REMEDY}")]
    Length {
        /// Bytes written.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// Other bytes than were written.
    #[error("altered since it was written: its SHA-256 is {found}, not {expected}; {REMEDY}")]
    Altered {
        /// SHA-256 of what was written.
        expected: String,
        /// SHA-256 of what is there.
        found: String,
    },
    /// A part of another partition.
    #[error(
        "belongs to another partition ({}) than manifest.json beside it ({expected}); {REMEDY}",
        escaped(found)
    )]
    Mixed {
        /// Id of the manifest's partition.
        expected: String,
        /// Id of the file's.
        found: String,
    },
    /// Another part of the same partition.
    #[error("holds part {found} under the name of part {expected}; {REMEDY}")]
    OtherPart {
        /// The part whose name the file has.
        expected: u32,
        /// The part that it holds.
        found: u32,
    },
    /// A part that the partition does not have.
    #[error(
        "has {n_parts} parts, and there is no part {part}; run as many ranks as there are parts"
    )]
    NoSuchPart {
        /// The part asked for.
        part: u32,
        /// Parts there are.
        n_parts: usize,
    },
    /// A file that is no safetensors file, or one without the format's metadata.
    #[error("no part of a partition: {}; {REMEDY}", escaped(problem))]
    Header {
        /// Why.
        problem: String,
    },
    /// An array that is not what the format has.
    #[error("array `{}`: {problem}; {REMEDY}", escaped(name))]
    Array {
        /// Its name.
        name: String,
        /// Why.
        problem: ArrayFault,
    },
    /// The system has no memory for an array.
    #[error("array `{}`: no memory for its {bytes} bytes", escaped(name))]
    Memory {
        /// Name of the array.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// What one part sends is not what another reads.
    #[error("part {owner} does not send to part {reader} the rows that it reads; {REMEDY}")]
    Mirror {
        /// Who sends.
        owner: u32,
        /// Who reads.
        reader: u32,
    },
}

/// What is wrong with an array of a part's file.
///
/// # Example
/// ```
/// use sylvie_partition::{ArrayFault, FolderError, FolderFault};
///
/// let problem = ArrayFault::Shape { expected: vec![4], found: vec![3] };
/// let fault = FolderFault::Array { name: "labels".to_owned(), problem };
/// let error = FolderError { path: "photo.parts/part-0001.safetensors".into(), fault };
/// let message = error.to_string();
/// assert!(message.starts_with("photo.parts/part-0001.safetensors: array `labels`: shape [3], "));
/// ```
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayFault {
    /// It is not there.
    #[error("not there")]
    Missing,
    /// The format has no such array.
    #[error("the format has no such array")]
    Unknown,
    /// Another type.
    #[error("type {found}, expected {expected}")]
    Type {
        /// The type the format has.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// Another shape than the arrays before it imply.
    #[error("shape {found:?}, expected {expected:?}")]
    Shape {
        /// The shape implied.
        expected: Vec<usize>,
        /// The shape found.
        found: Vec<usize>,
    },
    /// A value that cannot be.
    #[error("position {position} holds {found}, expected {expected}")]
    Value {
        /// Where in the array.
        position: usize,
        /// The value.
        found: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// Rows sent in a symmetric graph that are not those that read from the reader.
    #[error(
        "rows for part {reader} are not those that read from part {owner}, as they are in a symmetric \
         graph"
    )]
    NotMirrored {
        /// Who reads.
        reader: u32,
        /// Who owns the halo block in the same place.
        owner: u32,
    },
    /// Values that make no matrix, features or labels.
    #[error("{0}")]
    Graph(GraphError),
}

impl FolderFault {
    /// This fault of `path`.
    pub(super) fn at(self, path: &Path) -> FolderError {
        FolderError { path: path.to_owned(), fault: self }
    }

    /// A fault of an array.
    pub(super) fn array(name: impl Into<String>, problem: ArrayFault) -> Self {
        Self::Array { name: name.into(), problem }
    }
}

impl From<io::Error> for FolderFault {
    fn from(problem: io::Error) -> Self {
        if problem.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Io { problem } }
    }
}

/// Turns what the system says into an error of `path`.
pub(super) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    move |problem| FolderFault::from(problem).at(path)
}

/// A path for messages: control characters are escaped, so that it stays on its line.
fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

fn escaped(text: &str) -> String {
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
