//! What is written is read back as it was.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sylvie_data::{DataError, Format, ReadOptions, WRITE_CHOICES, detect, read, write};
use sylvie_graph::{
    Dataset, DenseMatrix, Direction, Features, Labels, Role, SparseMatrix, Split, UNLABELLED,
    clean_edges,
};

fn formats() -> impl Iterator<Item = Format> {
    WRITE_CHOICES.split('|').map(|word| word.parse().unwrap())
}

fn labels(n_nodes: usize) -> impl Strategy<Value = Labels> {
    // The first nodes have one class each, so that no class is without nodes.
    let single =
        (1..4_u32, prop::collection::vec(0..6_u32, n_nodes)).prop_map(|(n_classes, draws)| {
            let class = |(node, draw): (usize, u32)| match node as u32 {
                node if node < n_classes => node,
                _ if draw < n_classes => draw,
                _ => UNLABELLED,
            };
            Labels::single(n_classes, draws.into_iter().enumerate().map(class).collect()).unwrap()
        });
    let multi = (
        prop::collection::vec(0..2_u8, n_nodes * 3),
        prop::collection::vec(any::<bool>(), n_nodes),
    )
        .prop_map(|(mut values, mut known)| {
            known[..3].fill(true);
            for (row, &known) in values.chunks_exact_mut(3).zip(&known) {
                if !known {
                    row.fill(0);
                }
            }
            Labels::Multi { n_classes: 3, values, labelled: known }
        });
    prop_oneof![single, multi]
}

fn features(n_nodes: usize) -> impl Strategy<Value = Features> {
    let value =
        || prop_oneof![Just(0.0_f32), any::<f32>().prop_filter("finite", |v| v.is_finite())];
    let dense = prop::collection::vec(value(), n_nodes * 2)
        .prop_map(move |values| Features::Dense(DenseMatrix::new(n_nodes, 2, values).unwrap()));
    let sparse = prop::collection::vec(value(), n_nodes).prop_map(move |values| {
        let indptr: Vec<u64> = (0..=n_nodes as u64).collect();
        let columns: Vec<u32> = (0..n_nodes as u32).map(|row| row % 5).collect();
        Features::Sparse(SparseMatrix::new(5, &indptr, &columns, &values).unwrap())
    });
    prop_oneof![dense, sparse]
}

fn dataset() -> impl Strategy<Value = Dataset> {
    (4..30_usize).prop_flat_map(|n_nodes| {
        let end = 0..n_nodes as u32;
        let edges = prop::collection::vec((end.clone(), end), 0..80);
        let roles = prop::collection::vec(0..4_usize, n_nodes);
        let parts = (edges, any::<bool>(), features(n_nodes), labels(n_nodes), roles);
        parts.prop_map(move |(edges, is_directed, features, labels, roles)| {
            let direction = if is_directed { Direction::Directed } else { Direction::Symmetric };
            let (graph, cleaning) = clean_edges(n_nodes, &edges, direction).unwrap();
            let all = [Role::Train, Role::Val, Role::Test, Role::None];
            let mut roles: Vec<Role> = roles.into_iter().map(|role| all[role]).collect();
            // The first three nodes have labels, or else no set would be of use.
            let labelled = (0..n_nodes).filter(|&node| labels.is_labelled(node));
            for (node, role) in labelled.zip(all).take(3) {
                roles[node] = role;
            }
            let (name, split) = ("drawn".to_owned(), Split::new(roles));
            Dataset { name, graph, direction, cleaning, features, labels, split }
        })
    })
}

fn dense(features: &Features) -> Vec<u32> {
    let matrix = match features {
        Features::Dense(matrix) => matrix.clone(),
        Features::Sparse(matrix) => matrix.to_dense(),
    };
    matrix.values().iter().map(|value| value.to_bits()).collect()
}

fn is_held(format: Format, labels: &Labels) -> bool {
    match format {
        Format::Reddit => !labels.is_multi(),
        Format::GraphSaint => !labels.is_multi() || labels.n_unlabelled() == 0,
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_format_that_is_written_is_read_back(dataset in dataset()) {
        prop_assume!(dataset.check().is_ok());
        for format in formats() {
            let scratch = tempfile::tempdir().unwrap();
            let folder = scratch.path().join("written");
            let written = write(&dataset, format, &folder);
            if !is_held(format, &dataset.labels) {
                prop_assert!(matches!(written, Err(DataError::CannotHold { .. })), "{format}");
                prop_assert!(!folder.exists() && !scratch.path().join("written.new").exists());
                continue;
            }
            written.unwrap();
            let source = folder.to_str().unwrap();
            prop_assert_eq!(detect(source).unwrap(), format);
            let options = ReadOptions { direction: dataset.direction, ..ReadOptions::default() };
            let copy = read(source, &options).unwrap();
            prop_assert_eq!(&copy.graph, &dataset.graph, "{}", format);
            prop_assert_eq!(dense(&copy.features), dense(&dataset.features), "{}", format);
            prop_assert_eq!(&copy.labels, &dataset.labels, "{}", format);
            prop_assert_eq!(&copy.split, &dataset.split, "{}", format);
            prop_assert_eq!(copy.cleaning.n_loops + copy.cleaning.n_duplicates, 0);
        }
    }
}

fn planted() -> Dataset {
    read("synthetic:nodes=60,degree=4,features=3,classes=3", &ReadOptions::default()).unwrap()
}

fn all_bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(all_bytes(&path));
        } else {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn the_same_data_set_gives_the_same_bytes() {
    let dataset = planted();
    for format in formats() {
        let scratch = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| scratch.path().join("new").join(name));
        write(&dataset, format, &first).unwrap();
        write(&dataset, format, &second).unwrap();
        assert!(all_bytes(&first) == all_bytes(&second), "{format}");
    }
}

#[test]
fn nothing_is_written_over_and_nothing_half_done_is_left() {
    let dataset = planted();
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("place");
    let message = |format| write(&dataset, format, &place).unwrap_err().to_string();
    assert!(message(Format::Planetoid).contains("unknown format to write `planetoid`"));
    fs::write(&place, "text").unwrap();
    assert!(message(Format::Ogb).ends_with("place: a file; nothing is written over it"));
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    write(&dataset, Format::Ogb, &place).unwrap();
    assert!(message(Format::Arrays).contains("a folder with files in it"));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    fs::create_dir(scratch.path().join("other.new")).unwrap();
    let error = write(&dataset, Format::Arrays, &scratch.path().join("other")).unwrap_err();
    assert!(error.to_string().contains("another conversion"), "{error}");
}

#[test]
fn features_too_empty_to_be_written_out_are_refused() {
    let mut dataset = planted();
    let n_nodes = dataset.n_nodes();
    let indptr = vec![0; n_nodes + 1];
    dataset.features = Features::Sparse(SparseMatrix::new(1 << 30, &indptr, &[], &[]).unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let error = write(&dataset, Format::Arrays, &scratch.path().join("place")).unwrap_err();
    assert!(matches!(error, DataError::TooSparse { .. }), "{error}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}
