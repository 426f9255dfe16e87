//! A partition folder, read.

use std::path::{Path, PathBuf};

use super::PartHead;
use super::arrays::ArrayFile;
use super::error::{FolderError, FolderFault};
use super::manifest::{Manifest, VERSION};
use super::part::{FolderPart, from_arrays};

/// A partition folder whose manifest has been read.
///
/// Each rank opens the folder and reads its own part; nothing of the other parts is touched.
///
/// # Example
/// ```
/// use sylvie_partition::{FolderPart, PartContents, PartitionFolder};
/// # use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// # use sylvie_partition::{About, Contiguous, Existing, NewFolder, Partitioner};
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
/// # let temporary = tempfile::tempdir()?;
/// # let dir = temporary.path().join("path.parts");
/// # let about = About { inductive: true, ..About::default() };
/// # NewFolder::create(&dir, Existing::Keep)?.write(&dataset, &assignment, &about)?;
///
/// // A path of four nodes in two parts, of which this process takes the second.
/// let folder = PartitionFolder::open(&dir)?;
/// let FolderPart { whole, training } = folder.read_part(1)?;
/// let PartContents { graph, features, labels, roles } = whole;
/// assert_eq!((graph.n_local(), folder.manifest().n_nodes), (2, 4));
/// assert_eq!((features.n_rows(), labels.n_nodes(), roles.len()), (2, 2, 2));
/// // The partition is inductive: there is a part of the graph of the training nodes, too.
/// assert_eq!(training.map(|part| part.graph.own_ids), Some(vec![3]));
/// assert!(folder.read_part(2).is_err());
///
/// // Or all of them.
/// assert_eq!(folder.read_all()?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PartitionFolder {
    dir: PathBuf,
    manifest: Manifest,
}

impl PartitionFolder {
    /// Reads the manifest of the folder `dir`.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn open(dir: &Path) -> Result<Self, FolderError> {
        Ok(Self { dir: dir.to_owned(), manifest: Manifest::read(dir)? })
    }

    /// What the folder says of itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads one part and checks it: what comes back can be trained on, whatever the bytes were.
    ///
    /// Checked are length and SHA-256 of the file, that it belongs to this manifest, and that its arrays
    /// agree with each other: ids and rows ascend and are in range, degrees are numbers of edges, the
    /// plan sends what a symmetric graph reads. What other parts hold is not known here; see
    /// [`PartitionFolder::read_all`].
    ///
    /// # Cost
    /// One pass over the file. Memory: the part, sparse features twice for a moment.
    /// # Errors
    /// A part that does not exist; a file that is missing, or not the one that was written for this part
    /// of this partition.
    pub fn read_part(&self, part: u32) -> Result<FolderPart, FolderError> {
        let Some(entry) = self.manifest.parts.get(part as usize) else {
            let n_parts = self.manifest.parts.len();
            return Err(FolderFault::NoSuchPart { part, n_parts }.at(&self.dir));
        };
        let path = self.dir.join(&entry.file);
        let read = || -> Result<FolderPart, FolderFault> {
            let opened = ArrayFile::open(&path);
            // Whose file it is tells more than how long it is, so that comes first.
            let file = match opened {
                Ok(file) => file,
                Err(FolderFault::Header { problem }) => {
                    let found = std::fs::metadata(&path)?.len();
                    let expected = entry.bytes;
                    return Err(match found == expected {
                        true => FolderFault::Header { problem },
                        false => FolderFault::Length { expected, found },
                    });
                }
                Err(fault) => return Err(fault),
            };
            self.check_head(file.about(), part)?;
            if file.n_bytes() != entry.bytes {
                let (expected, found) = (entry.bytes, file.n_bytes());
                return Err(FolderFault::Length { expected, found });
            }
            let (arrays, sha256) = file.read()?;
            if sha256 != entry.sha256 {
                let expected = entry.sha256.clone();
                return Err(FolderFault::Altered { expected, found: sha256 });
            }
            from_arrays(arrays, &self.manifest, part)
        };
        read().map_err(|fault| fault.at(&path))
    }

    fn check_head(&self, about: Option<&str>, part: u32) -> Result<(), FolderFault> {
        let about = about.ok_or_else(|| FolderFault::Header {
            problem: "its metadata have no key `sylvie`".to_owned(),
        })?;
        let head: PartHead = serde_json::from_str(about).map_err(|error| FolderFault::Header {
            problem: format!("its metadata `sylvie`: {error}"),
        })?;
        if head.version != VERSION {
            return Err(FolderFault::Version { found: head.version });
        }
        if head.id != self.manifest.id {
            let expected = self.manifest.id.clone();
            return Err(FolderFault::Mixed { expected, found: head.id });
        }
        if head.part != part {
            return Err(FolderFault::OtherPart { expected: part, found: head.part });
        }
        let (expected, found) = (u64::from(self.manifest.n_parts()), u64::from(head.parts));
        if expected != found {
            return Err(FolderFault::Count { what: "parts", expected, found });
        }
        Ok(())
    }

    /// Reads all parts, and checks that each sends what the others read.
    ///
    /// # Errors
    /// As [`PartitionFolder::read_part`], with the first part that cannot be read.
    pub fn read_all(&self) -> Result<Vec<FolderPart>, FolderError> {
        let parts: Vec<FolderPart> = (0..self.manifest.n_parts())
            .map(|part| self.read_part(part))
            .collect::<Result<_, _>>()?;
        check_mirrors(&parts).map_err(|fault| fault.at(&self.dir))?;
        Ok(parts)
    }
}

/// Checks that every send list holds the rows of the reader's block, and that there are no others.
fn check_mirrors(parts: &[FolderPart]) -> Result<(), FolderFault> {
    let whole = parts.iter().map(|part| &part.whole.graph).collect();
    let training = parts.iter().filter_map(|part| part.training.as_ref()).map(|part| &part.graph);
    for graphs in [whole, training.collect::<Vec<_>>()] {
        for reader in &graphs {
            for block in reader.halo_blocks() {
                let owner = graphs[block.owner as usize];
                let send = owner.plan.sends.iter().find(|send| send.reader == reader.part);
                let ids = |row: &u32| owner.own_ids[*row as usize];
                let is_same = send.is_some_and(|send| {
                    send.rows.iter().map(ids).eq(block.column_ids.iter().copied())
                });
                if !is_same {
                    return Err(FolderFault::Mirror { owner: owner.part, reader: reader.part });
                }
            }
            for send in &reader.plan.sends {
                let blocks = graphs[send.reader as usize].halo_blocks();
                if blocks.iter().all(|block| block.owner != reader.part) {
                    return Err(FolderFault::Mirror { owner: reader.part, reader: send.reader });
                }
            }
        }
    }
    Ok(())
}
