//! A part as arrays, and back, checked.

use sylvie_graph::{DenseMatrix, Features, GraphError, Labels, PartGraph, Role, SparseMatrix};

use super::arrays::{Arrays, NamedArray, ValuesRef};
use super::error::FolderFault;
use super::manifest::{FeatureKind, LabelKind, Manifest};
use super::structure::{GraphReader, Names, check, graph_fault};
use crate::quality::Quality;

/// A part of a graph with what is known of its own nodes; rows are local.
#[derive(Clone, Debug, PartialEq)]
pub struct PartContents {
    /// Structure and halo plan.
    pub graph: PartGraph,
    /// Features of the own rows.
    pub features: Features,
    /// Labels of the own rows.
    pub labels: Labels,
    /// Roles of the own rows.
    pub roles: Vec<Role>,
}

/// What a partition folder holds of one part.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderPart {
    /// The part of the whole graph.
    pub whole: PartContents,
    /// The part of the graph of the training nodes, where the partition is inductive.
    pub training: Option<PartContents>,
}

/// The arrays of features.
pub(super) fn feature_arrays(features: &Features) -> Vec<NamedArray<'_>> {
    let array = |name: &str, shape, values| NamedArray { name: name.to_owned(), shape, values };
    match features {
        Features::Dense(matrix) => {
            let shape = vec![matrix.n_rows(), matrix.n_cols()];
            vec![array("features", shape, ValuesRef::F32(matrix.values()))]
        }
        Features::Sparse(matrix) => {
            let (indptr, n_stored) = (matrix.indptr(), vec![matrix.n_stored()]);
            vec![
                array("features.indptr", vec![indptr.len()], ValuesRef::U64(indptr)),
                array("features.indices", n_stored.clone(), ValuesRef::U32(matrix.indices())),
                array("features.values", n_stored, ValuesRef::F32(matrix.values())),
            ]
        }
    }
}

/// The arrays of labels; `known` has one number a node with several classes.
pub(super) fn label_arrays<'a>(labels: &'a Labels, known: &'a [u8]) -> Vec<NamedArray<'a>> {
    let array = |name: &str, shape, values| NamedArray { name: name.to_owned(), shape, values };
    match labels {
        Labels::Single { classes, .. } => {
            vec![array("labels", vec![classes.len()], ValuesRef::U32(classes))]
        }
        Labels::Multi { n_classes, values, labelled } => {
            let shape = vec![labelled.len(), *n_classes as usize];
            vec![
                array("labels", shape, ValuesRef::U8(values)),
                array("labelled", vec![known.len()], ValuesRef::U8(known)),
            ]
        }
    }
}

/// Whether nodes are labelled, as numbers; nothing where their labels tell.
pub(super) fn known(labels: &Labels) -> Vec<u8> {
    match labels {
        Labels::Single { .. } => Vec::new(),
        Labels::Multi { labelled, .. } => labelled.iter().map(|&known| u8::from(known)).collect(),
    }
}

/// The number of a role in files.
pub(super) fn role_number(role: Role) -> u8 {
    match role {
        Role::None => 0,
        Role::Train => 1,
        Role::Val => 2,
        Role::Test => 3,
    }
}

/// Puts a part together.
///
/// # Errors
/// The first array that is missing, too many, or does not agree with the others or the manifest.
pub(super) fn from_arrays(
    mut arrays: Arrays,
    manifest: &Manifest,
    part: u32,
) -> Result<FolderPart, FolderFault> {
    let reader = GraphReader { manifest, part };
    let figures = |quality: &Quality| quality.parts.get(part as usize).copied().unwrap_or_default();
    let whole = figures(&manifest.quality);
    let graph = reader.graph(&mut arrays, Names::WHOLE, (whole.n_nodes, &whole))?;
    let n_local = graph.n_local();
    let roles = roles(&mut arrays, n_local)?;
    let features = features(&mut arrays, manifest, n_local)?;
    let labels = labels(&mut arrays, manifest, n_local)?;
    let whole = PartContents { graph, features, labels, roles };
    let training = match &manifest.training_quality {
        None => None,
        Some(quality) => {
            let trained = figures(quality);
            let graph = reader.graph(&mut arrays, Names::TRAINING, (trained.n_train, &trained))?;
            Some(training_part(graph, &whole)?)
        }
    };
    arrays.finish()?;
    Ok(FolderPart { whole, training })
}

/// The training part, whose rows are rows of the whole graph's part.
fn training_part(graph: PartGraph, whole: &PartContents) -> Result<PartContents, FolderFault> {
    let rows: Vec<u32> = (0_u32..)
        .zip(&whole.roles)
        .filter(|&(_, &role)| role == Role::Train)
        .map(|(row, _)| row)
        .collect();
    let is_same = rows.len() == graph.n_local()
        && rows
            .iter()
            .zip(&graph.own_ids)
            .all(|(&row, &id)| whole.graph.own_ids[row as usize] == id);
    if !is_same {
        let (expected, found) = (rows.len() as u64, graph.n_local() as u64);
        let what = "own nodes to train on, those with the role 1";
        return Err(FolderFault::Count { what, expected, found });
    }
    Ok(PartContents {
        features: whole.features.gather_rows(&rows),
        labels: whole.labels.gather_rows(&rows),
        roles: vec![Role::Train; rows.len()],
        graph,
    })
}

fn roles(arrays: &mut Arrays, n_local: usize) -> Result<Vec<Role>, FolderFault> {
    let numbers = arrays.u8s("roles", Some(&[n_local]))?;
    check("roles", &numbers, "0 (none), 1 (train), 2 (val) or 3 (test)", |_, number| number <= 3)?;
    let role = |number| match number {
        1 => Role::Train,
        2 => Role::Val,
        3 => Role::Test,
        _ => Role::None,
    };
    Ok(numbers.into_iter().map(role).collect())
}

fn features(
    arrays: &mut Arrays,
    manifest: &Manifest,
    n_local: usize,
) -> Result<Features, FolderFault> {
    let n_cols = manifest.n_features;
    let features = match manifest.feature_kind {
        FeatureKind::Dense => {
            let values = arrays.f32s("features", Some(&[n_local, n_cols]))?;
            DenseMatrix::new(n_local, n_cols, values).map(Features::Dense)
        }
        FeatureKind::Sparse => {
            let indptr = arrays.u64s("features.indptr", Some(&[n_local + 1]))?;
            let indices = arrays.u32s("features.indices", None)?;
            let values = arrays.f32s("features.values", Some(&[indices.len()]))?;
            SparseMatrix::new(n_cols, &indptr, &indices, &values).map(Features::Sparse)
        }
    };
    let finite = features.and_then(|features| features.check_finite().map(|()| features));
    finite.map_err(|error| {
        let name = match (manifest.feature_kind, &error) {
            (FeatureKind::Dense, _) => "features",
            (FeatureKind::Sparse, GraphError::BadOffset { .. }) => "features.indptr",
            (FeatureKind::Sparse, GraphError::NotFinite { .. }) => "features.values",
            (FeatureKind::Sparse, _) => "features.indices",
        };
        graph_fault(name)(error)
    })
}

fn labels(arrays: &mut Arrays, manifest: &Manifest, n_local: usize) -> Result<Labels, FolderFault> {
    let n_classes = manifest.n_classes;
    match manifest.label_kind {
        LabelKind::Single => {
            let classes = arrays.u32s("labels", Some(&[n_local]))?;
            Labels::single(n_classes, classes).map_err(graph_fault("labels"))
        }
        LabelKind::Multi => {
            let values = arrays.u8s("labels", Some(&[n_local, n_classes as usize]))?;
            let known = arrays.u8s("labelled", Some(&[n_local]))?;
            for (name, numbers) in [("labels", &values), ("labelled", &known)] {
                check(name, numbers, "0 or 1", |_, number| number <= 1)?;
            }
            let labelled = known.into_iter().map(|known| known == 1).collect();
            Ok(Labels::Multi { n_classes, values, labelled })
        }
    }
}
