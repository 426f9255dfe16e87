//! A partition folder, written.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use sylvie_graph::{Assignment, Dataset, Direction, Features, PartGraph, Role};

use super::PartHead;
use super::arrays::{self, NamedArray, Sum, ValuesRef};
use super::error::{FolderError, FolderFault, io_at};
use super::manifest::{
    FORMAT, FeatureKind, LabelKind, MANIFEST, Manifest, PartFile, Source, VERSION, file_name,
};
use super::part::{feature_arrays, known, label_arrays, role_number};
use super::place::{Existing, Place};
use super::structure::{Lists, Names, graph_arrays};
use crate::halo::PartCutter;
use crate::quality::{Quality, quality};

/// What a partition folder says besides what the graph and the assignment say themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Where the graph came from.
    pub source: Source,
    /// How nodes were assigned.
    pub partitioner: String,
    /// What it made small.
    pub objective: String,
    /// Its seed.
    pub seed: u64,
    /// Whether each part also gets its part of the graph of the training nodes.
    pub inductive: bool,
}

/// The place of a partition folder that is yet to be written.
///
/// The folder is written beside it, under its name with `.new`, and renamed when it is whole and on the
/// disk. Dropped without [`NewFolder::write`], or where that fails, it leaves nothing behind.
///
/// # Example
/// ```
/// use sylvie_graph::{Dataset, DenseMatrix, Direction, Features, Labels, Role, Split, clean_edges};
/// use sylvie_partition::{About, Contiguous, Existing, NewFolder, Partitioner, PartitionFolder};
///
/// let (graph, cleaning) = clean_edges(4, &[(0, 1), (1, 2), (2, 3)], Direction::Symmetric)?;
/// let dataset = Dataset {
///     name: "path".to_owned(),
///     direction: Direction::Symmetric,
///     cleaning,
///     features: Features::Dense(DenseMatrix::new(4, 1, vec![0.0, 1.0, 2.0, 3.0])?),
///     labels: Labels::single(2, vec![0, 0, 1, 1])?,
///     split: Split::new(vec![Role::Train, Role::Val, Role::Test, Role::Train]),
///     graph,
/// };
/// let assignment = Contiguous.partition(&dataset.graph, &[true, false, false, true], 2)?;
/// # let folder = tempfile::tempdir()?;
/// # let dir = folder.path().join("path.parts");
/// NewFolder::create(&dir, Existing::Keep)?.write(&dataset, &assignment, &About::default())?;
/// let part = PartitionFolder::open(&dir)?.read_part(1)?;
/// assert_eq!(part.whole.graph.own_ids, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewFolder {
    place: Place,
}

impl NewFolder {
    /// Takes the place; fails now if nothing can be written there.
    ///
    /// # Errors
    /// A folder that is not empty, unless it is a partition and may be replaced; another partition that
    /// is being written there; what the system says.
    pub fn create(dir: &Path, existing: Existing) -> Result<Self, FolderError> {
        Ok(Self { place: Place::take(dir, existing)? })
    }

    /// Cuts the graph and writes it part by part. The same input gives the same bytes.
    ///
    /// # Cost
    /// Linear in nodes, edges and values, once. Memory besides the input: one part with its features and
    /// what [`PartCutter`] keeps; with `about.inductive` the graph of the training nodes too.
    /// # Errors
    /// What the system says.
    /// # Panics
    /// If assignment, features, labels or split are not of the graph's nodes.
    pub fn write(
        self,
        dataset: &Dataset,
        assignment: &Assignment,
        about: &About,
    ) -> Result<Manifest, FolderError> {
        let train: Vec<bool> =
            dataset.split.roles().iter().map(|&role| role == Role::Train).collect();
        let graph = &dataset.graph;
        let trained = about.inductive.then(|| graph.induced(&train));
        let whole_quality = quality(graph, assignment, &train);
        let training_quality = trained.as_ref().map(|graph| quality(graph, assignment, &train));
        let mut manifest = describe(dataset, about, (whole_quality, training_quality));
        let path = self.place.aside().join(MANIFEST);
        let json = |problem| FolderFault::Json { problem }.at(&path);
        manifest.set_id(assignment.parts()).map_err(json)?;
        let mut whole = PartCutter::new(graph, assignment, None);
        let mut training = trained.map(|graph| PartCutter::of_induced(graph, assignment, &train));
        for part in 0..assignment.n_parts() {
            let graphs = (whole.cut(part), training.as_mut().map(|cutter| cutter.cut(part)));
            let file = file_name(part);
            let head = head(&manifest, assignment.n_parts(), part).map_err(json)?;
            let path = self.place.aside().join(&file);
            let Sum { n_bytes, sha256 } = write_part(&path, &head, dataset, graphs)?;
            manifest.parts.push(PartFile { file, bytes: n_bytes, sha256 });
        }
        let text = manifest.seal().map_err(json)?;
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(io_at(&path))?;
        self.place.commit()?;
        Ok(manifest)
    }
}

fn head(manifest: &Manifest, parts: u32, part: u32) -> Result<String, serde_json::Error> {
    serde_json::to_string(&PartHead { version: VERSION, id: manifest.id.clone(), part, parts })
}

/// The manifest, but for id, parts and checksum.
fn describe(
    dataset: &Dataset,
    about: &About,
    (quality, training_quality): (Quality, Option<Quality>),
) -> Manifest {
    let count = |role| dataset.split.count(role);
    Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        id: String::new(),
        sylvie: env!("CARGO_PKG_VERSION").to_owned(),
        source: about.source.clone(),
        directed: dataset.direction == Direction::Directed,
        inductive: about.inductive,
        partitioner: about.partitioner.clone(),
        objective: about.objective.clone(),
        seed: about.seed,
        n_nodes: dataset.n_nodes(),
        n_edges: dataset.graph.n_edges(),
        n_features: dataset.features.n_cols(),
        feature_kind: match dataset.features {
            Features::Dense(_) => FeatureKind::Dense,
            Features::Sparse(_) => FeatureKind::Sparse,
        },
        n_classes: dataset.labels.n_classes(),
        label_kind: if dataset.labels.is_multi() { LabelKind::Multi } else { LabelKind::Single },
        n_train: count(Role::Train),
        n_val: count(Role::Val),
        n_test: count(Role::Test),
        cleaning: dataset.cleaning.into(),
        quality,
        training_quality,
        parts: Vec::new(),
        checksum: String::new(),
    }
}

/// Writes the file of one part of the whole graph and, where there is one, of the training nodes'.
fn write_part(
    path: &Path,
    head: &str,
    dataset: &Dataset,
    (whole, training): (PartGraph, Option<PartGraph>),
) -> Result<Sum, FolderError> {
    let features = dataset.features.gather_rows(&whole.own_ids);
    let labels = dataset.labels.gather_rows(&whole.own_ids);
    let known = known(&labels);
    let all_roles = dataset.split.roles();
    let roles: Vec<u8> =
        whole.own_ids.iter().map(|&id| role_number(all_roles[id as usize])).collect();
    let lists = (Lists::of(&whole), training.as_ref().map(Lists::of));
    let mut list = graph_arrays(Names::WHOLE, &whole, &lists.0);
    if let (Some(graph), Some(lists)) = (&training, &lists.1) {
        list.extend(graph_arrays(Names::TRAINING, graph, lists));
    }
    list.extend(feature_arrays(&features));
    list.extend(label_arrays(&labels, &known));
    let (name, shape) = ("roles".to_owned(), vec![roles.len()]);
    list.push(NamedArray { name, shape, values: ValuesRef::U8(&roles) });
    arrays::write(path, head, list)
}
