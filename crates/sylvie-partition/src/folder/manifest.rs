//! What a partition folder says of itself.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sylvie_graph::Cleaning;

use super::error::{FolderError, FolderFault, io_at};
use crate::quality::Quality;

/// The file's name.
pub(super) const MANIFEST: &str = "manifest.json";
/// What the manifest calls the format.
pub(super) const FORMAT: &str = "sylvie-partition";
/// The version that is written and read.
pub(super) const VERSION: u32 = 1;
/// A manifest takes some hundred bytes a part.
const MAX_BYTES: u64 = 256 << 20;
/// Hexadecimal digits of a SHA-256.
const N_DIGITS: usize = 64;

/// What `manifest.json` holds; its keys are in docs/partition-folder.md.
///
/// # Example
/// ```
/// use sylvie_partition::{About, CleaningCounts, Existing, FeatureKind, LabelKind, Manifest};
/// use sylvie_partition::{NewFolder, PartFile, Source};
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
/// // A path of four nodes in two parts, and where it came from.
/// let source = Source { name: "path".to_owned(), ..Source::default() };
/// let about = About { source, partitioner: "contiguous".to_owned(), ..About::default() };
/// NewFolder::create(&dir, Existing::Keep)?.write(&dataset, &assignment, &about)?;
///
/// // What whoever is handed the folder can know without reading a part.
/// let manifest = Manifest::read(&dir)?;
/// assert_eq!((manifest.source.name.as_str(), manifest.n_nodes, manifest.n_parts()), ("path", 4, 2));
/// assert_eq!((manifest.feature_kind, manifest.label_kind), (FeatureKind::Dense, LabelKind::Single));
/// assert_eq!(manifest.trained_quality().communication_volume, 2);
/// let cleaning = CleaningCounts { stored: 3, inverses_added: 3, ..CleaningCounts::default() };
/// assert_eq!(manifest.cleaning, cleaning);
/// let PartFile { file, .. } = &manifest.parts[1];
/// assert_eq!(file, "part-0001.safetensors");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `sylvie-partition`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// What each part's file repeats: it tells partitions apart.
    pub id: String,
    /// Version of the program that wrote it.
    pub sylvie: String,
    /// Where the graph came from.
    pub source: Source,
    /// Whether edges were kept one way; else inverses were added.
    pub directed: bool,
    /// Whether each part has a second structure to train on, that of the training nodes.
    pub inductive: bool,
    /// How nodes were assigned.
    pub partitioner: String,
    /// What it made small.
    pub objective: String,
    /// Its seed.
    pub seed: u64,
    /// Nodes of the whole graph.
    #[serde(rename = "nodes")]
    pub n_nodes: usize,
    /// Directed edges of the whole graph.
    #[serde(rename = "edges")]
    pub n_edges: usize,
    /// Features a node.
    #[serde(rename = "features")]
    pub n_features: usize,
    /// How they are stored.
    pub feature_kind: FeatureKind,
    /// Classes.
    #[serde(rename = "classes")]
    pub n_classes: u32,
    /// How many of them a node has.
    pub label_kind: LabelKind,
    /// Training nodes.
    #[serde(rename = "train")]
    pub n_train: usize,
    /// Validation nodes.
    #[serde(rename = "val")]
    pub n_val: usize,
    /// Test nodes.
    #[serde(rename = "test")]
    pub n_test: usize,
    /// What cleaning changed.
    pub cleaning: CleaningCounts,
    /// Quality of the assignment on the whole graph.
    pub quality: Quality,
    /// The same on the graph of the training nodes, where parts have one.
    pub training_quality: Option<Quality>,
    /// The files of the parts, in their order.
    pub parts: Vec<PartFile>,
    /// SHA-256 of this file with 64 zeros in the place of these digits.
    pub checksum: String,
}

/// Where a partitioned graph came from, as the command line has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Short name for messages.
    pub name: String,
    /// Path or words that the graph was read from.
    pub data: String,
    /// Its format, where it was named.
    pub format: Option<String>,
    /// What was done to features.
    pub normalize: String,
    /// Which split: `given`, as in folders of before there were others, or the rule it was drawn by.
    #[serde(default = "given")]
    pub split: String,
    /// Seed of a drawn split.
    pub split_seed: u64,
    /// Which of several splits.
    pub split_index: u32,
}

fn given() -> String {
    "given".to_owned()
}

/// How features are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// Every value.
    Dense,
    /// Non-zeros, in compressed rows.
    Sparse,
}

/// How many classes a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKind {
    /// One, or none where it is not known.
    Single,
    /// Any number.
    Multi,
}

/// What cleaning changed, in directed edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleaningCounts {
    /// Edges given.
    pub stored: usize,
    /// Edges from a node to itself, removed.
    pub loops: usize,
    /// Repetitions removed.
    pub duplicates: usize,
    /// Inverse edges added.
    pub inverses_added: usize,
}

/// The file of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFile {
    /// Its name in the folder.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes, 64 hexadecimal digits.
    pub sha256: String,
}

/// What every version of a manifest has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl From<Cleaning> for CleaningCounts {
    fn from(cleaning: Cleaning) -> Self {
        let Cleaning { n_stored, n_loops, n_duplicates, n_inverses_added } = cleaning;
        Self {
            stored: n_stored,
            loops: n_loops,
            duplicates: n_duplicates,
            inverses_added: n_inverses_added,
        }
    }
}

impl Manifest {
    /// Number of parts.
    #[must_use]
    pub fn n_parts(&self) -> u32 {
        // Checked when it was read, and that of an assignment when it is written.
        self.parts.len() as u32
    }

    /// Quality of the assignment on the graph that is trained on.
    #[must_use]
    pub fn trained_quality(&self) -> &Quality {
        self.training_quality.as_ref().unwrap_or(&self.quality)
    }

    /// Gives the manifest an id out of what it says and of who owns which node.
    pub(super) fn set_id(&mut self, owners: &[u32]) -> Result<(), serde_json::Error> {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&*self)?);
        for chunk in owners.chunks(4096) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|owner| owner.to_le_bytes()).collect();
            hash.update(bytes);
        }
        self.id = hexadecimal(&hash.finalize())[..N_DIGITS / 2].to_owned();
        Ok(())
    }

    /// Sets the checksum, and gives the file's text.
    pub(super) fn seal(&mut self) -> Result<String, serde_json::Error> {
        self.checksum = "0".repeat(N_DIGITS);
        let blank = serde_json::to_string_pretty(self)? + "\n";
        self.checksum = hexadecimal(&Sha256::digest(&blank));
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads and checks the manifest of the folder `dir`.
    ///
    /// # Errors
    /// No folder, no manifest, one of another version, or one that is not as it was written.
    pub fn read(dir: &Path) -> Result<Self, FolderError> {
        let found = fs::metadata(dir).map_err(io_at(dir))?;
        if !found.is_dir() {
            return Err(FolderFault::NotAFolder.at(dir));
        }
        let path = dir.join(MANIFEST);
        let text = read_text(&path)?;
        Self::parse(&text).map_err(|fault| fault.at(&path))
    }

    /// Whether the folder `dir` has a manifest of this format, of whatever version and in whatever state.
    pub(super) fn is_in(dir: &Path) -> bool {
        let head = read_text(&dir.join(MANIFEST)).ok();
        let head = head.and_then(|text| serde_json::from_str::<Head>(&text).ok());
        head.is_some_and(|head| head.format == FORMAT)
    }

    fn parse(text: &str) -> Result<Self, FolderFault> {
        let json = |problem| FolderFault::Json { problem };
        let head: Head = serde_json::from_str(text).map_err(json)?;
        if head.format != FORMAT {
            return Err(FolderFault::Foreign { found: head.format });
        }
        if head.version != VERSION {
            return Err(FolderFault::Version { found: head.version });
        }
        let manifest: Self = serde_json::from_str(text).map_err(json)?;
        let blank = match manifest.checksum.len() {
            N_DIGITS => text.replacen(&manifest.checksum, &"0".repeat(N_DIGITS), 1),
            _ => text.to_owned(),
        };
        let found = hexadecimal(&Sha256::digest(&blank));
        if found != manifest.checksum {
            return Err(FolderFault::Altered { expected: manifest.checksum, found });
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks that no number contradicts another.
    fn check(&self) -> Result<(), FolderFault> {
        let n_parts = self.parts.len();
        let qualities =
            || [Some(&self.quality), self.training_quality.as_ref()].into_iter().flatten();
        let n_own: usize = self.quality.parts.iter().map(|part| part.n_nodes).fold(0, add);
        let trained = &self.trained_quality().parts;
        let n_trained = trained.iter().map(|part| part.n_train).fold(0, add);
        let n_edges = self.quality.parts.iter().map(|part| part.n_edges).fold(0, add);
        let roles = add(add(self.n_train, self.n_val), self.n_test);
        let mut counts = vec![
            ("parts", n_parts.clamp(1, 1 << 24), n_parts),
            ("qualities", 1 + usize::from(self.inductive), qualities().count()),
            ("nodes", self.n_nodes.min(u32::MAX as usize - 1), self.n_nodes),
            ("features a node", self.n_features.min(u32::MAX as usize - 1), self.n_features),
            ("classes", self.n_classes.max(1) as usize, self.n_classes as usize),
            ("own nodes of all parts", self.n_nodes, n_own),
            ("training nodes of all parts", self.n_train, n_trained),
            ("edges of all parts", self.n_edges, n_edges),
            ("nodes with a role", roles.min(self.n_nodes), roles),
        ];
        for quality in qualities() {
            counts.push(("parts of the quality", n_parts, quality.n_parts as usize));
            counts.push(("parts of the quality", n_parts, quality.parts.len()));
        }
        if let Some(&(what, expected, found)) = counts.iter().find(|(_, a, b)| a != b) {
            let (expected, found) = (expected as u64, found as u64);
            return Err(FolderFault::Count { what, expected, found });
        }
        for (part, entry) in (0_u32..).zip(&self.parts) {
            let expected = file_name(part);
            if entry.file != expected {
                return Err(FolderFault::FileName { found: entry.file.clone(), expected });
            }
        }
        Ok(())
    }
}

/// A sum that stops at the largest number: such a sum contradicts the rest.
fn add(a: usize, b: usize) -> usize {
    a.saturating_add(b)
}

/// Name of a part's file.
pub(super) fn file_name(part: u32) -> String {
    format!("part-{part:04}.safetensors")
}

/// Whether `name` is that of a part's file.
pub(super) fn is_part_name(name: &str) -> bool {
    let digits = name.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".safetensors"));
    digits.and_then(|digits| digits.parse().ok()).is_some_and(|part| file_name(part) == name)
}

/// Bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

fn read_text(path: &Path) -> Result<String, FolderError> {
    // Others are not opened: a pipe would be waited for, a device read without end.
    if !fs::metadata(path).map_err(io_at(path))?.is_file() {
        return Err(FolderFault::NotAFile.at(path));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(io_at(path))?;
    let n_bytes = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(io_at(path))?;
    if n_bytes as u64 > MAX_BYTES {
        let fault = FolderFault::Length { expected: MAX_BYTES, found: n_bytes as u64 };
        return Err(fault.at(path));
    }
    Ok(text)
}
