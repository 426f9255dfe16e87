//! Small graphs as files.

use std::fs::{self, File};
use std::path::Path;

use npyz::{AutoSerialize, WriteOptions, WriterBuilder as _};

/// Nodes of [`ring`].
pub(crate) const N_NODES: usize = 12;
/// Features a node of [`ring`].
pub(crate) const N_FEATURES: usize = 2;

/// Writes one array.
pub(crate) fn array<T: AutoSerialize>(folder: &Path, name: &str, shape: &[usize], values: &[T]) {
    let file = File::create(folder.join(name)).expect("a file");
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    let options = WriteOptions::new().default_dtype().shape(&shape).writer(file);
    let mut writer = options.begin_nd().expect("a header");
    writer.extend(values).expect("values");
    writer.finish().expect("all values");
}

/// Writes a ring of nodes of two classes as a folder of arrays.
pub(crate) fn ring(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let n = N_NODES as i64;
    array(folder, "indptr.npy", &[N_NODES + 1], &(0..=n).collect::<Vec<i64>>());
    array(folder, "indices.npy", &[N_NODES], &(0..n).map(|v| (v + 1) % n).collect::<Vec<i64>>());
    let features: Vec<f32> = (0..N_NODES * N_FEATURES).map(|place| place as f32 * 0.1).collect();
    array(folder, "feat.npy", &[N_NODES, N_FEATURES], &features);
    array(folder, "label.npy", &[N_NODES], &(0..n).map(|v| v % 2).collect::<Vec<i64>>());
    for (name, first, last) in [("train.npy", 0, 6), ("val.npy", 6, 9), ("test.npy", 9, n)] {
        let nodes: Vec<i64> = (first..last).collect();
        array(folder, name, &[nodes.len()], &nodes);
    }
}
