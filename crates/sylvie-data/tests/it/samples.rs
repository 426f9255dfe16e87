//! Small files of each format, built byte by byte.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// An npy array with any header.
pub(crate) fn npy(descr: &str, is_fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let order = if is_fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    npy_with_text(&text, values)
}

/// An npy array of version 1 with any text as header.
pub(crate) fn npy_with_text(text: &str, values: &[u8]) -> Vec<u8> {
    let padded = format!("{text}{}\n", " ".repeat(63 - (10 + text.len()) % 64));
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(padded.len()).unwrap().to_le_bytes());
    bytes.extend(padded.as_bytes());
    bytes.extend(values);
    bytes
}

pub(crate) fn int64(values: &[i64]) -> Vec<u8> {
    npy("<i8", false, &format!("({},)", values.len()), &concat(values, |v| v.to_le_bytes()))
}

pub(crate) fn int32(values: &[i32]) -> Vec<u8> {
    npy("<i4", false, &format!("({},)", values.len()), &concat(values, |v| v.to_le_bytes()))
}

pub(crate) fn float32(n_rows: usize, values: &[f32]) -> Vec<u8> {
    let shape = format!("({n_rows}, {})", values.len() / n_rows);
    npy("<f4", false, &shape, &concat(values, |v| v.to_le_bytes()))
}

pub(crate) fn float32_vector(values: &[f32]) -> Vec<u8> {
    npy("<f4", false, &format!("({},)", values.len()), &concat(values, |v| v.to_le_bytes()))
}

pub(crate) fn bools(values: &[u8]) -> Vec<u8> {
    npy("|b1", false, &format!("({},)", values.len()), values)
}

pub(crate) fn concat<T: Copy, const N: usize>(
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

/// Named arrays.
pub(crate) type Members = Vec<(&'static str, Vec<u8>)>;

/// An npz of `members`.
pub(crate) fn npz(members: &Members, method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (key, bytes) in members {
        zip.start_file(format!("{key}.npy"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Replaces a member, or adds it.
pub(crate) fn put(members: &mut Members, key: &'static str, bytes: Vec<u8>) {
    members.retain(|(name, _)| *name != key);
    members.push((key, bytes));
}

/// The files of a data set, and the path to read.
#[derive(Clone)]
pub(crate) struct Sample {
    /// Name below the folder, and content.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// What to read, below the folder; empty for the folder itself.
    pub(crate) entry: &'static str,
}

impl Sample {
    /// Writes the files; the path is good as long as the folder lives.
    pub(crate) fn write(&self) -> (TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        write_files(folder.path(), &self.files);
        let path = match self.entry {
            "" => folder.path().to_owned(),
            entry => folder.path().join(entry),
        };
        let source = path.to_str().unwrap().to_owned();
        (folder, source)
    }

    /// The same with another content of one file.
    pub(crate) fn with(&self, name: &'static str, bytes: Vec<u8>) -> Self {
        let mut changed = self.clone();
        put(&mut changed.files, name, bytes);
        changed
    }
}

fn write_files(folder: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, bytes) in files {
        let path: PathBuf = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Six nodes in a ring, given once around with one loop and one duplicate: 0 1 2 3 4 5 in two classes.
/// The same graph in all formats.
pub(crate) const N_RING_EDGES: usize = 12;
const INDPTR: [i32; 7] = [0, 3, 4, 5, 6, 7, 8];
const INDICES: [i32; 8] = [1, 1, 0, 2, 3, 4, 5, 0];
/// Class signals and a constant column.
pub(crate) const FEATURES: [f32; 12] =
    [1.0, 2.0, 3.0, 2.0, 5.0, 2.0, -1.0, 2.0, 0.0, 2.0, 4.0, 2.0];
const TRAIN: [i64; 2] = [0, 1];
const VAL: [i64; 2] = [2, 3];
const TEST: [i64; 1] = [5];

pub(crate) fn arrays() -> Sample {
    let files = vec![
        ("indptr.npy", int32(&INDPTR)),
        ("indices.npy", int32(&INDICES)),
        ("feat.npy", float32(6, &FEATURES)),
        ("label.npy", int64(&[0, 1, 0, 1, -1, 1])),
        ("train.npy", bools(&[1, 1, 0, 0, 0, 0])),
        ("val.npy", int64(&VAL)),
        ("test.npy", int64(&TEST)),
    ];
    Sample { files, entry: "" }
}

pub(crate) fn arrays_multi() -> Sample {
    let rows = [1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1];
    arrays().with("label.npy", npy("|u1", false, "(6, 3)", &rows))
}

pub(crate) fn gnn_benchmark_members() -> Members {
    vec![
        ("adj_data", float32_vector(&[1.0; 8])),
        ("adj_indices", int32(&INDICES)),
        ("adj_indptr", int32(&INDPTR)),
        ("adj_shape", int64(&[6, 6])),
        ("attr_data", float32_vector(&[1.0, 2.0, 3.0, 4.0])),
        ("attr_indices", int32(&[3, 0, 1, 2])),
        ("attr_indptr", int32(&[0, 2, 3, 3, 3, 4, 4])),
        ("attr_shape", int64(&[6, 4])),
        ("labels", npy("|i1", false, "(6,)", &[0, 1, 0, 1, 0, 1])),
        ("metadata", npy("|O", false, "()", b"\x80\x02}q\x00.")),
    ]
}

fn split_members() -> Members {
    vec![("train", int64(&TRAIN)), ("valid", int64(&VAL)), ("test", int64(&TEST))]
}

/// Flat keys, stored.
pub(crate) fn gnn_benchmark() -> Sample {
    let files = vec![
        ("ring.npz", npz(&gnn_benchmark_members(), CompressionMethod::Stored)),
        ("ring_split.npz", npz(&split_members(), CompressionMethod::Stored)),
    ];
    Sample { files, entry: "ring.npz" }
}

/// Dotted keys, dense attributes, sparse multi-labels, deflated.
pub(crate) fn gnn_benchmark_dotted() -> Sample {
    let members: Members = vec![
        ("adj_matrix.data", float32_vector(&[1.0; 8])),
        ("adj_matrix.indices", int32(&INDICES)),
        ("adj_matrix.indptr", int32(&INDPTR)),
        ("adj_matrix.shape", int64(&[6, 6])),
        ("attr_matrix", float32(6, &FEATURES)),
        ("labels.data", npy("|u1", false, "(4,)", &[1, 1, 1, 1])),
        ("labels.indices", int32(&[0, 2, 1, 0])),
        ("labels.indptr", int32(&[0, 2, 2, 3, 4, 4, 4])),
        ("labels.shape", int64(&[6, 3])),
    ];
    let files = vec![
        ("ring.npz", npz(&members, CompressionMethod::Deflated)),
        ("ring_split.npz", npz(&split_members(), CompressionMethod::Deflated)),
    ];
    Sample { files, entry: "ring.npz" }
}

pub(crate) fn scipy_csr() -> Members {
    vec![
        ("indices", int32(&INDICES)),
        ("indptr", int32(&INDPTR)),
        ("format", npy("|S3", false, "()", b"csr")),
        ("shape", int64(&[6, 6])),
        ("data", bools(&[1; 8])),
    ]
}

pub(crate) fn graphsaint() -> Sample {
    let role = br#"{"tr": [0, 1], "va": [2, 3], "te": [5]}"#.to_vec();
    let class_map = br#"{"0": 7, "2": 7, "1": 3, "3": 3, "5": 3, "4": 7}"#.to_vec();
    let feats = FEATURES.map(f64::from);
    let files = vec![
        ("adj_full.npz", npz(&scipy_csr(), CompressionMethod::Deflated)),
        ("role.json", role),
        ("class_map.json", class_map),
        ("feats.npy", npy("<f8", false, "(6, 2)", &concat(&feats, f64::to_le_bytes))),
    ];
    Sample { files, entry: "" }
}

pub(crate) fn graphsaint_multi() -> Sample {
    let class_map =
        br#"{"5": [1, 0], "0": [0, 0], "1": [1, 1], "2": [0, 1], "3": [1, 0], "4": [0, 1]}"#;
    graphsaint().with("class_map.json", class_map.to_vec())
}

pub(crate) fn heterophilous_members() -> Members {
    let ends = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0, 0, 0, 0, 1];
    // Two mask sets, column after column.
    let train = [1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    let val = [0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1];
    let test = [0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0];
    vec![
        ("node_features", float32(6, &FEATURES)),
        ("node_labels", int64(&[0, 1, 0, 1, 0, 1])),
        ("edges", npy("<i8", false, "(8, 2)", &concat(&ends, i64::to_le_bytes))),
        ("train_masks", npy("|b1", true, "(2, 6)", &train)),
        ("val_masks", npy("|b1", true, "(2, 6)", &val)),
        ("test_masks", npy("|b1", true, "(2, 6)", &test)),
    ]
}

pub(crate) fn heterophilous() -> Sample {
    let bytes = npz(&heterophilous_members(), CompressionMethod::Deflated);
    Sample { files: vec![("ring.npz", bytes)], entry: "ring.npz" }
}

/// One sample of each variety, under a name for messages.
pub(crate) fn all() -> Vec<(&'static str, Sample)> {
    vec![
        ("arrays", arrays()),
        ("arrays, multi-label", arrays_multi()),
        ("gnn-benchmark, flat", gnn_benchmark()),
        ("gnn-benchmark, dotted", gnn_benchmark_dotted()),
        ("graphsaint", graphsaint()),
        ("graphsaint, multi-label", graphsaint_multi()),
        ("heterophilous", heterophilous()),
    ]
}
