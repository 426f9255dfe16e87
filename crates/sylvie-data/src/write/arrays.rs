//! The `arrays` format, written.

use std::path::Path;

use sylvie_graph::{Dataset, Labels, Role, UNLABELLED};

use super::npy::{file, put, put_features};
use super::npz::put_ids;
use super::stored_adjacency;
use crate::error::DataError;
use crate::labels::NO_LABEL;

/// Writes the files into `folder`.
pub(super) fn write(dataset: &Dataset, folder: &Path) -> Result<(), DataError> {
    let graph = stored_adjacency(dataset);
    let n_nodes = dataset.n_nodes();
    let offsets = graph.indptr().iter().map(|&offset| offset.cast_signed());
    file(folder, "indptr.npy", |out| put(out, &[n_nodes + 1], offsets))?;
    let (shape, ids) = ([graph.n_edges()], graph.indices().iter().copied());
    file(folder, "indices.npy", |out| put_ids(out, &shape, n_nodes, ids))?;
    file(folder, "feat.npy", |out| put_features(out, &dataset.features))?;
    file(folder, "label.npy", |out| match &dataset.labels {
        Labels::Single { classes, .. } => put(out, &[n_nodes], classes.iter().map(|&c| class(c))),
        Labels::Multi { n_classes, values, labelled } => {
            let width = *n_classes as usize;
            let shape = [n_nodes, width];
            if labelled.iter().all(|&is_known| is_known) {
                return put(out, &shape, values.iter().copied());
            }
            // Only floats have a value for what is not known.
            let known = labelled.iter().flat_map(|&is_known| std::iter::repeat_n(is_known, width));
            let flag = |(&value, is_known)| if is_known { f32::from(value) } else { f32::NAN };
            put(out, &shape, values.iter().zip(known).map(flag))
        }
    })?;
    for (name, role) in
        [("train.npy", Role::Train), ("val.npy", Role::Val), ("test.npy", Role::Test)]
    {
        let mask = dataset.split.roles().iter().map(|&found| found == role);
        file(folder, name, |out| put(out, &[n_nodes], mask))?;
    }
    Ok(())
}

/// A class as files have it.
pub(super) fn class(class: u32) -> i64 {
    if class == UNLABELLED { NO_LABEL } else { i64::from(class) }
}
