//! Small folders of the formats that are text, pickles, or made of both.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::CompressionMethod;

use crate::samples::{FEATURES, Members, Sample, float32, int32, int64, npy, npz, put};

/// The ring of [`crate::samples`], a pair a line.
const RING: [(u32, u32); 8] = [(0, 1), (0, 1), (0, 0), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)];

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn pairs(separator: &str) -> String {
    RING.iter().map(|(a, b)| format!("{a}{separator}{b}\n")).collect()
}

fn feature_rows() -> String {
    FEATURES.chunks_exact(2).map(|row| format!("{},{:?}\n", row[0], row[1])).collect()
}

fn ogb_folders() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("split/b/train.csv.gz", gzip(b"0\n1\n")),
        ("split/b/valid.csv.gz", gzip(b"2\n3\n")),
        ("split/b/test.csv.gz", gzip(b"5\n")),
        ("split/c/train.csv", b"4\n1\n".to_vec()),
        ("split/c/valid.csv", b"2\n".to_vec()),
        ("split/c/test.csv", b"5\n".to_vec()),
    ]
}

pub(crate) fn ogb() -> Sample {
    let mut files = vec![
        ("raw/edge.csv.gz", gzip(pairs(",").as_bytes())),
        ("raw/node-feat.csv.gz", gzip(feature_rows().as_bytes())),
        ("raw/node-label.csv.gz", gzip(b"0\n1.0\n0\n1\nnan\n1\n")),
        ("raw/num-node-list.csv.gz", gzip(b"6\n")),
        ("raw/num-edge-list.csv.gz", gzip(b"8\n")),
    ];
    files.extend(ogb_folders());
    Sample { files, entry: "" }
}

/// Several label columns, of which node 4 lacks one, in files that are not gzipped.
pub(crate) fn ogb_multi() -> Sample {
    let mut files = vec![
        ("raw/edge.csv", pairs(",").into_bytes()),
        ("raw/node-feat.csv", feature_rows().into_bytes()),
        ("raw/node-label.csv", b"1,0,1\n0,0,0\n1,1,1\n0,0,1\n0,,1\n1,0,1\n".to_vec()),
        ("raw/num-node-list.csv", b"6\n".to_vec()),
        ("raw/num-edge-list.csv", b"8\n".to_vec()),
    ];
    files.extend(ogb_folders());
    Sample { files, entry: "" }
}

/// `raw/data.npz`, as papers100M has it.
pub(crate) fn ogb_arrays() -> Sample {
    let ends: Vec<i64> =
        RING.iter().map(|e| e.0).chain(RING.iter().map(|e| e.1)).map(i64::from).collect();
    let data: Members = vec![
        (
            "edge_index",
            npy("<i8", false, "(2, 8)", &crate::samples::concat(&ends, i64::to_le_bytes)),
        ),
        ("num_nodes_list", int64(&[6])),
        ("num_edges_list", int64(&[8])),
        ("node_feat", float32(6, &FEATURES)),
    ];
    let classes = [0.0_f32, 1.0, 0.0, 1.0, f32::NAN, 1.0];
    let labels = npy("<f4", false, "(6, 1)", &crate::samples::concat(&classes, f32::to_le_bytes));
    let mut files = vec![
        ("raw/data.npz", npz(&data, CompressionMethod::Deflated)),
        ("raw/node-label.npz", npz(&vec![("node_label", labels)], CompressionMethod::Stored)),
    ];
    files.extend(ogb_folders());
    Sample { files, entry: "" }
}

pub(crate) fn reddit_data() -> Members {
    vec![
        ("feature", float32(6, &FEATURES)),
        ("label", int64(&[0, 1, 0, 1, -1, 1])),
        ("node_types", int32(&[1, 1, 2, 2, 0, 3])),
        ("node_ids", int64(&[0, 1, 2, 3, 4, 5])),
    ]
}

pub(crate) fn reddit() -> Sample {
    let graph: Members = vec![
        ("row", int32(&RING.map(|e| e.0.cast_signed()))),
        ("col", int32(&RING.map(|e| e.1.cast_signed()))),
        ("format", npy("|S3", false, "()", b"coo")),
        ("shape", int64(&[6, 6])),
        ("data", npy("|b1", false, "(8,)", &[1; 8])),
    ];
    let files = vec![
        ("reddit_graph.npz", npz(&graph, CompressionMethod::Deflated)),
        ("reddit_data.npz", npz(&reddit_data(), CompressionMethod::Deflated)),
    ];
    Sample { files, entry: "" }
}

pub(crate) fn edge_list() -> Sample {
    let files = vec![
        ("edges.csv", format!("source,target\n{}", pairs(",")).into_bytes()),
        ("feat.npy", float32(6, &FEATURES)),
        ("labels.csv", b"label\n0\n1\n0\n1\n\n1\n".to_vec()),
        ("train.npy", int64(&[0, 1])),
        ("val.csv", b"2\n3\n".to_vec()),
        ("test.csv.gz", gzip(b"5\n")),
    ];
    Sample { files, entry: "" }
}

/// Blanks between numbers, comments, weights, and gzip.
pub(crate) fn edge_list_tsv() -> Sample {
    let mut sample = edge_list();
    sample.files.remove(0);
    let lines: String = RING.iter().map(|(a, b)| format!(" {a} \t{b}\t0.5\r\n")).collect();
    put(&mut sample.files, "edges.tsv.gz", gzip(format!("# a ring\n{lines}").as_bytes()));
    sample
}

pub(crate) fn matrix_market() -> Sample {
    let mut sample = edge_list();
    sample.files.retain(|(name, _)| *name != "edges.csv" && *name != "feat.npy");
    let entries: String = RING.iter().map(|(a, b)| format!("{} {}\n", a + 1, b + 1)).collect();
    let edges =
        format!("%%MatrixMarket matrix coordinate pattern general\n% a ring\n6 6 8\n{entries}");
    let values: String =
        (0..12).map(|at| format!("{} {} {:e}\n", at / 2 + 1, at % 2 + 1, FEATURES[at])).collect();
    let features = format!("%%MatrixMarket matrix coordinate real general\n6 2 12\n{values}");
    put(&mut sample.files, "edges.mtx", edges.into_bytes());
    put(&mut sample.files, "feat.mtx.gz", gzip(features.as_bytes()));
    sample
}

/// One sample of each variety, under a name for messages.
pub(crate) fn all() -> Vec<(&'static str, Sample)> {
    vec![
        ("ogb", ogb()),
        ("ogb, several labels", ogb_multi()),
        ("ogb, arrays", ogb_arrays()),
        ("reddit", reddit()),
        ("edge-list", edge_list()),
        ("edge-list, tsv", edge_list_tsv()),
        ("matrix-market", matrix_market()),
    ]
}
