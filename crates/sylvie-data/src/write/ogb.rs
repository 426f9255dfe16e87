//! The `ogb` format, written as gzipped text.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use sylvie_graph::{Csr, Dataset, Direction, Labels, Role, UNLABELLED};

use super::npy::BUFFER_BYTES;
use super::{each_row, failed};
use crate::error::DataError;
use crate::ogb::{RAW, SPLIT};

/// The name of the split.
const SPLIT_NAME: &str = "given";

type Out = BufWriter<GzEncoder<File>>;

/// Writes the files into `folder`. Of a graph read both ways each pair of nodes is written once, as in
/// ogbn-products.
pub(super) fn write(dataset: &Dataset, folder: &Path) -> Result<(), DataError> {
    let (raw, split) = (folder.join(RAW), folder.join(SPLIT).join(SPLIT_NAME));
    for path in [&raw, &split] {
        fs::create_dir_all(path).map_err(failed(path))?;
    }
    let graph = &dataset.graph;
    let n_edges = match dataset.direction {
        Direction::Directed => graph.n_edges(),
        Direction::Symmetric => graph.n_edges() / 2,
    };
    gzipped(&raw, "num-node-list.csv.gz", |out| writeln!(out, "{}", dataset.n_nodes()))?;
    gzipped(&raw, "num-edge-list.csv.gz", |out| writeln!(out, "{n_edges}"))?;
    gzipped(&raw, "edge.csv.gz", |out| write_edges(out, graph, dataset.direction))?;
    gzipped(&raw, "node-feat.csv.gz", |out| {
        each_row(&dataset.features, |row| write_row(out, row.iter().map(|&value| Decimal(value))))
    })?;
    gzipped(&raw, "node-label.csv.gz", |out| write_labels(out, &dataset.labels))?;
    for (name, role) in
        [("train.csv.gz", Role::Train), ("valid.csv.gz", Role::Val), ("test.csv.gz", Role::Test)]
    {
        let ids = dataset.split.ids(role);
        gzipped(&split, name, |out| ids.iter().try_for_each(|id| writeln!(out, "{id}")))?;
    }
    Ok(())
}

fn gzipped(
    folder: &Path,
    name: &str,
    fill: impl FnOnce(&mut Out) -> io::Result<()>,
) -> Result<(), DataError> {
    let path = folder.join(name);
    let write = || {
        let file = File::create_new(&path)?;
        // No time and no name in it, so that the same data set gives the same bytes.
        let encoder = GzBuilder::new().mtime(0).write(file, Compression::fast());
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, encoder);
        fill(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
    };
    write().map_err(failed(&path))
}

fn write_edges(out: &mut Out, graph: &Csr, direction: Direction) -> io::Result<()> {
    let mut line = Vec::new();
    for target in 0..graph.n_rows() as u32 {
        for &source in graph.row(target as usize) {
            if direction == Direction::Directed || source < target {
                line.clear();
                push_number(&mut line, source);
                line.push(b',');
                push_number(&mut line, target);
                line.push(b'\n');
                out.write_all(&line)?;
            }
        }
    }
    Ok(())
}

/// Appends a number's digits.
fn push_number(line: &mut Vec<u8>, mut number: u32) {
    let begin = line.len();
    loop {
        line.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line[begin..].reverse();
}

/// The shortest decimal number that is read as this one again, without hundreds of zeros.
struct Decimal(f32);

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        if size == 0.0 || (1e-5..1e16).contains(&size) {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

fn write_row<T: std::fmt::Display>(
    out: &mut Out,
    items: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    for (position, item) in items.into_iter().enumerate() {
        write!(out, "{}{item}", if position == 0 { "" } else { "," })?;
    }
    out.write_all(b"\n")
}

/// What is not known is `nan`: readers skip lines that are empty.
fn write_labels(out: &mut Out, labels: &Labels) -> io::Result<()> {
    match labels {
        Labels::Single { classes, .. } => classes.iter().try_for_each(|&class| match class {
            UNLABELLED => out.write_all(b"nan\n"),
            class => writeln!(out, "{class}"),
        }),
        Labels::Multi { n_classes, values, labelled } => {
            let rows = values.chunks_exact(*n_classes as usize).zip(labelled);
            for (row, &is_known) in rows {
                if is_known {
                    write_row(out, row)?;
                } else {
                    write_row(out, row.iter().map(|_| "nan"))?;
                }
            }
            Ok(())
        }
    }
}
