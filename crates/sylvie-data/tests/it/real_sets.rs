//! Public data sets, where the environment variable `SYLVIE_DATA_DIR` names a folder that holds them.

use std::path::Path;

use sylvie_data::{ReadOptions, read};
use sylvie_graph::Role;

struct Expected {
    path: &'static str,
    n_nodes: usize,
    n_edges: usize,
    n_features: usize,
    n_classes: u32,
    /// Training, validation and test nodes.
    split: [usize; 3],
}

const fn set(
    path: &'static str,
    [n_nodes, n_edges, n_features]: [usize; 3],
    n_classes: u32,
    split: [usize; 3],
) -> Expected {
    Expected { path, n_nodes, n_edges, n_features, n_classes, split }
}

const SETS: [Expected; 14] = [
    set("gnn-benchmark/cora.npz", [2708, 10_556, 1433], 7, [140, 210, 2358]),
    set("gnn-benchmark/citeseer.npz", [3312, 9072, 3703], 6, [120, 180, 3012]),
    set("gnn-benchmark/cora_ml.npz", [2995, 16_316, 2879], 7, [140, 210, 2645]),
    set("graphsaint/ppi", [14_755, 444_218, 50], 121, [9716, 1825, 3214]),
    set("heterophilous/tolokers.npz", [11_758, 1_038_000, 10], 2, [5879, 2939, 2940]),
    set("heterophilous/actor.npz", [7600, 53_318, 932], 5, [3648, 2432, 1520]),
    set("heterophilous/minesweeper.npz", [10_000, 78_804, 7], 2, [5000, 2500, 2500]),
    set("heterophilous/chameleon_filtered.npz", [890, 17_708, 2325], 5, [409, 287, 194]),
    set("npz/amazon_photo.npz", [7650, 238_162, 745], 8, [4590, 1530, 1530]),
    set("npz/coauthor_physics.npz", [34_493, 495_924, 8415], 5, [20_695, 6898, 6900]),
    set("ogb/photo", [7650, 238_162, 745], 8, [4590, 1530, 1530]),
    set("reddit-layout/cora_ml", [2995, 16_316, 2879], 7, [1817, 279, 899]),
    set("planetoid/ind.cora", [2708, 10_556, 1433], 7, [140, 500, 1000]),
    set("planetoid/ind.citeseer", [3327, 9104, 3703], 6, [120, 500, 1000]),
];

#[test]
#[allow(clippy::print_stderr)]
fn public_sets_have_their_known_sizes() {
    let Some(folder) = std::env::var_os("SYLVIE_DATA_DIR") else {
        eprintln!("SYLVIE_DATA_DIR is not set: no public data set was read");
        return;
    };
    for expected in SETS {
        let path = Path::new(&folder).join(expected.path);
        let dataset = read(path.to_str().unwrap(), &ReadOptions::default()).unwrap();
        let name = expected.path;
        assert_eq!(dataset.n_nodes(), expected.n_nodes, "{name}");
        assert_eq!(dataset.graph.n_edges(), expected.n_edges, "{name}");
        assert!(dataset.graph.is_symmetric(), "{name}");
        assert_eq!(dataset.features.n_cols(), expected.n_features, "{name}");
        assert_eq!(dataset.labels.n_classes(), expected.n_classes, "{name}");
        let split = [Role::Train, Role::Val, Role::Test].map(|role| dataset.split.count(role));
        assert_eq!(split, expected.split, "{name}");
    }
}
