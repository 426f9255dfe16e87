//! What is done with arbitrary bytes, by a property test here and by the fuzz targets in `fuzz/`.

use sylvie_data::{Normalization, ReadOptions, read};
use sylvie_graph::Direction;

use crate::samples::{self, Sample};
use crate::{samples_pickle, samples_text};

/// Reads `sample` with `data` in the place of one of its files. Whatever the bytes: a data set that can be
/// used, or an error on one line.
fn read_with(sample: &Sample, name: &'static str, data: &[u8]) {
    let (_folder, source) = sample.with(name, data.to_vec()).write();
    let kept = ReadOptions::default();
    let changed = ReadOptions {
        direction: Direction::Directed,
        normalization: Normalization::Standard,
        ..kept
    };
    for options in [kept, changed] {
        match read(&source, &options) {
            Ok(dataset) => dataset.check().unwrap(),
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
}

/// Any npy array.
pub(crate) fn npy(data: &[u8]) {
    for name in ["indptr.npy", "feat.npy", "label.npy", "val.npy"] {
        read_with(&samples::arrays(), name, data);
    }
}

/// Any archive.
pub(crate) fn npz(data: &[u8]) {
    read_with(&samples::gnn_benchmark(), "ring.npz", data);
    read_with(&samples::heterophilous(), "ring.npz", data);
    read_with(&samples_text::reddit(), "reddit_data.npz", data);
}

/// Any pickle, and any list of test nodes.
pub(crate) fn planetoid(data: &[u8]) {
    for name in ["ind.ring.allx", "ind.ring.ally", "ind.ring.graph", "ind.ring.test.index"] {
        read_with(&samples_pickle::ring(), name, data);
    }
}

/// Any text, gzipped or not.
pub(crate) fn csv(data: &[u8]) {
    for name in ["raw/edge.csv", "raw/node-feat.csv", "raw/node-label.csv", "raw/num-node-list.csv"]
    {
        read_with(&samples_text::ogb_multi(), name, data);
    }
    read_with(&samples_text::edge_list(), "edges.csv", data);
    read_with(&samples_text::matrix_market(), "edges.mtx", data);
}

/// All of them.
#[allow(dead_code, reason = "each fuzz target has one")]
pub(crate) const ALL: [fn(&[u8]); 4] = [npy, npz, planetoid, csv];

/// How files of these kinds begin.
#[allow(dead_code, reason = "fuzz targets find them by themselves")]
pub(crate) const HEADS: [&[u8]; 7] = [
    b"",
    b"\x93NUMPY\x01\x00",
    b"PK\x03\x04",
    b"\x80\x02",
    b"\x80\x02](",
    b"\x1f\x8b\x08\x00",
    b"%%MatrixMarket matrix coordinate real general\n",
];
