//! The `reddit` format, written.

use std::path::Path;

use sylvie_graph::{Dataset, Labels};

use super::arrays::class;
use super::npy::{put, put_features};
use super::npz::{NewArchive, write_coo};
use super::stored_adjacency;
use crate::error::DataError;
use crate::options::Format;
use crate::reddit::{DATA_FILE, GRAPH_FILE, number};

/// Writes the files into `folder`.
pub(super) fn write(dataset: &Dataset, folder: &Path) -> Result<(), DataError> {
    let Labels::Single { classes, .. } = &dataset.labels else {
        let (format, what) = (Format::Reddit, "nodes with several labels");
        return Err(DataError::CannotHold { format, what });
    };
    write_coo(folder, GRAPH_FILE, &stored_adjacency(dataset))?;
    let mut archive = NewArchive::create(folder, DATA_FILE)?;
    let shape = [dataset.n_nodes()];
    archive.add("feature", |out| put_features(out, &dataset.features))?;
    archive.add("label", |out| put(out, &shape, classes.iter().map(|&found| class(found))))?;
    let types = dataset.split.roles().iter().map(|&role| number(role));
    archive.add("node_types", |out| put(out, &shape, types))?;
    archive.add("node_ids", |out| put(out, &shape, (0..dataset.n_nodes()).map(|id| id as i64)))?;
    archive.finish()
}
