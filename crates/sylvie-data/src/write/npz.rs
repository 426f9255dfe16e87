//! Archives of npy arrays, stored as they are, which numpy and scipy read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sylvie_graph::Csr;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::failed;
use super::npy::{BUFFER_BYTES, put, put_text};
use crate::error::DataError;

/// An archive that is being written.
pub(super) struct NewArchive {
    path: PathBuf,
    zip: ZipWriter<BufWriter<File>>,
}

impl NewArchive {
    /// Begins `folder/name`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn create(folder: &Path, name: &str) -> Result<Self, DataError> {
        let path = folder.join(name);
        let file = File::create_new(&path).map_err(failed(&path))?;
        let zip = ZipWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        Ok(Self { path, zip })
    }

    /// Adds the array `key`, by what `fill` writes.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn add(
        &mut self,
        key: &str,
        fill: impl FnOnce(&mut ZipWriter<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<(), DataError> {
        // One date for all, so that the same data set gives the same bytes. Beyond 4 GB a member's
        // lengths take 64 bits, which must be said before they are known.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .large_file(true);
        let zip = &mut self.zip;
        let write = || {
            zip.start_file(format!("{key}.npy"), options).map_err(io::Error::from)?;
            fill(zip)
        };
        write().map_err(failed(&self.path))
    }

    /// Writes the table of contents.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn finish(self) -> Result<(), DataError> {
        let finish = || self.zip.finish().map_err(io::Error::from)?.flush();
        finish().map_err(failed(&self.path))
    }
}

/// Writes an adjacency as `scipy.sparse.save_npz` does a csr_matrix of ones.
pub(super) fn write_csr(folder: &Path, name: &str, graph: &Csr) -> Result<(), DataError> {
    let mut archive = NewArchive::create(folder, name)?;
    let (n_rows, n_edges) = (graph.n_rows(), graph.n_edges());
    archive.add("format", |out| put_text(out, "csr"))?;
    archive.add("shape", |out| put(out, &[2], [n_rows as i64, graph.n_cols() as i64]))?;
    archive
        .add("indices", |out| put_ids(out, &[n_edges], n_rows, graph.indices().iter().copied()))?;
    let offsets = graph.indptr().iter().copied();
    // scipy wants indices and offsets of one type.
    archive.add("indptr", |out| {
        if is_narrow(n_rows, n_edges) {
            put(out, &[n_rows + 1], offsets.map(|offset| offset as i32))
        } else {
            put(out, &[n_rows + 1], offsets.map(u64::cast_signed))
        }
    })?;
    archive.add("data", |out| put(out, &[n_edges], std::iter::repeat_n(true, n_edges)))?;
    archive.finish()
}

/// Writes it as a coo_matrix.
pub(super) fn write_coo(folder: &Path, name: &str, graph: &Csr) -> Result<(), DataError> {
    let mut archive = NewArchive::create(folder, name)?;
    let (n_rows, n_edges) = (graph.n_rows(), graph.n_edges());
    let rows = (0..n_rows as u32)
        .flat_map(|row| std::iter::repeat_n(row, graph.degree(row as usize) as usize));
    archive.add("row", |out| put_ids(out, &[n_edges], n_rows, rows))?;
    archive.add("col", |out| put_ids(out, &[n_edges], n_rows, graph.indices().iter().copied()))?;
    archive.add("format", |out| put_text(out, "coo"))?;
    archive.add("shape", |out| put(out, &[2], [n_rows as i64, graph.n_cols() as i64]))?;
    archive.add("data", |out| put(out, &[n_edges], std::iter::repeat_n(true, n_edges)))?;
    archive.finish()
}

/// Whether 32 bits count nodes and edges.
fn is_narrow(n_nodes: usize, n_edges: usize) -> bool {
    n_nodes.max(n_edges) <= i32::MAX as usize
}

/// Writes node numbers, in 32 bits where they, and as many as there are, can be counted in them.
pub(super) fn put_ids(
    out: &mut impl Write,
    shape: &[usize],
    n_nodes: usize,
    ids: impl Iterator<Item = u32>,
) -> io::Result<()> {
    if is_narrow(n_nodes, shape.iter().product()) {
        put(out, shape, ids.map(u32::cast_signed))
    } else {
        put(out, shape, ids.map(i64::from))
    }
}
