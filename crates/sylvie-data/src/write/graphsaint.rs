//! The `graphsaint` format, written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use sylvie_graph::{Dataset, Labels, Role};

use super::arrays::class;
use super::npy::{file, put_features};
use super::npz::write_csr;
use super::stored_adjacency;
use crate::error::DataError;
use crate::options::Format;

/// Writes the files into `folder`.
pub(super) fn write(dataset: &Dataset, folder: &Path) -> Result<(), DataError> {
    let format = Format::GraphSaint;
    if dataset.labels.is_multi() && dataset.labels.n_unlabelled() > 0 {
        return Err(DataError::CannotHold { format, what: "rows of labels that are not known" });
    }
    let graph = stored_adjacency(dataset);
    write_csr(folder, "adj_full.npz", &graph)?;
    let is_training: Vec<bool> =
        dataset.split.roles().iter().map(|&role| role == Role::Train).collect();
    write_csr(folder, "adj_train.npz", &graph.induced(&is_training))?;
    file(folder, "feats.npy", |out| put_features(out, &dataset.features))?;
    file(folder, "class_map.json", |out| write_labels(out, &dataset.labels))?;
    file(folder, "role.json", |out| {
        let sets = [("tr", Role::Train), ("va", Role::Val), ("te", Role::Test)];
        for (position, (key, role)) in sets.into_iter().enumerate() {
            write!(out, "{}\"{key}\": ", if position == 0 { "{" } else { ", " })?;
            write_list(out, dataset.split.ids(role))?;
        }
        out.write_all(b"}")
    })
}

fn write_list<T: std::fmt::Display>(
    out: &mut BufWriter<File>,
    items: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (position, item) in items.into_iter().enumerate() {
        write!(out, "{}{item}", if position == 0 { "" } else { ", " })?;
    }
    out.write_all(b"]")
}

fn write_labels(out: &mut BufWriter<File>, labels: &Labels) -> io::Result<()> {
    for node in 0..labels.n_nodes() {
        write!(out, "{}\"{node}\": ", if node == 0 { "{" } else { ", " })?;
        match labels {
            Labels::Single { classes, .. } => write!(out, "{}", class(classes[node]))?,
            Labels::Multi { n_classes, values, .. } => {
                let width = *n_classes as usize;
                write_list(out, &values[node * width..][..width])?;
            }
        }
    }
    out.write_all(b"}")
}
