//! Each format is recognised and read to the same graph.

use sylvie_data::{DataError, Format, ReadOptions, SplitRule, detect, read};
use sylvie_graph::{Dataset, Direction, Features, Labels, Role, UNLABELLED};
use zip::CompressionMethod;

use crate::samples::{self, Members, Sample, int32, int64, npy, npz, put};

fn read_sample(sample: &Sample, options: &ReadOptions) -> Result<Dataset, DataError> {
    let (_folder, source) = sample.write();
    read(&source, options)
}

fn read_default(sample: &Sample) -> Dataset {
    read_sample(sample, &ReadOptions::default()).unwrap()
}

fn classes(dataset: &Dataset) -> &[u32] {
    let Labels::Single { classes, .. } = &dataset.labels else { panic!("single labels") };
    classes
}

fn flags(dataset: &Dataset) -> &[u8] {
    let Labels::Multi { values, .. } = &dataset.labels else { panic!("multi-labels") };
    values
}

#[test]
fn every_format_is_recognised() {
    for (name, sample) in samples::all() {
        let (_folder, source) = sample.write();
        let format = name.split(',').next().unwrap();
        assert_eq!(detect(&source).unwrap().name(), format, "{name}");
    }
    assert_eq!(detect("synthetic").unwrap(), Format::Synthetic);
    assert_eq!(detect("synthetic:nodes=9").unwrap(), Format::Synthetic);
}

#[test]
fn words_and_values_match() {
    for word in Format::CHOICES.split('|') {
        assert_eq!(word.parse::<Format>().unwrap().to_string(), word);
    }
    for word in sylvie_data::Normalization::CHOICES.split('|') {
        assert_eq!(word.parse::<sylvie_data::Normalization>().unwrap().to_string(), word);
    }
}

#[test]
fn every_format_gives_the_ring() {
    for (name, sample) in samples::all() {
        let dataset = read_default(&sample);
        assert_eq!(dataset.n_nodes(), 6, "{name}");
        assert_eq!(dataset.graph.n_edges(), samples::N_RING_EDGES, "{name}");
        for node in 0..6_u32 {
            let mut expected = [(node + 5) % 6, (node + 1) % 6];
            expected.sort_unstable();
            assert_eq!(dataset.graph.row(node as usize), expected, "{name}");
        }
        let cleaning = dataset.cleaning;
        assert_eq!(
            (cleaning.n_stored, cleaning.n_loops, cleaning.n_duplicates),
            (8, 1, 1),
            "{name}"
        );
        assert_eq!(dataset.split.ids(Role::Train), [0, 1], "{name}");
        assert_eq!(dataset.split.ids(Role::Val), [2, 3], "{name}");
        assert_eq!(dataset.split.ids(Role::Test), [5], "{name}");
        if let Features::Dense(matrix) = &dataset.features {
            assert_eq!(matrix.values(), samples::FEATURES, "{name}");
        }
    }
}

#[test]
fn a_directed_edge_is_read_by_its_target() {
    let options = ReadOptions { direction: Direction::Directed, ..ReadOptions::default() };
    for (name, sample) in samples::all() {
        let dataset = read_sample(&sample, &options).unwrap();
        assert_eq!(dataset.graph.n_edges(), 6, "{name}");
        for node in 0..6_u32 {
            assert_eq!(dataset.graph.row(node as usize), [(node + 5) % 6], "{name}");
        }
    }
}

#[test]
fn labels_of_every_kind() {
    assert_eq!(classes(&read_default(&samples::arrays())), [0, 1, 0, 1, UNLABELLED, 1]);
    // 3 and 7 become 0 and 1.
    assert_eq!(classes(&read_default(&samples::graphsaint())), [1, 0, 1, 0, 1, 0]);
    let multi = read_default(&samples::graphsaint_multi());
    assert_eq!(flags(&multi), [0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0]);
    let multi = read_default(&samples::gnn_benchmark_dotted());
    assert_eq!(flags(&multi), [1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read_default(&samples::arrays_multi()).labels.n_classes(), 3);
}

#[test]
fn sparse_attributes_stay_sparse_and_are_sorted() {
    let dataset = read_default(&samples::gnn_benchmark());
    let Features::Sparse(matrix) = &dataset.features else { panic!("sparse features") };
    assert_eq!((matrix.n_rows(), matrix.n_cols()), (6, 4));
    assert_eq!(matrix.row(0), (&[0, 3][..], &[2.0, 1.0][..]));
    assert_eq!(matrix.row(4), (&[2][..], &[4.0][..]));
}

#[test]
fn the_second_mask_set_is_picked() {
    let options = ReadOptions { split_index: 1, ..ReadOptions::default() };
    let dataset = read_sample(&samples::heterophilous(), &options).unwrap();
    assert_eq!(dataset.split.ids(Role::Train), [2, 3]);
    assert_eq!(dataset.split.ids(Role::Val), [5]);
    assert_eq!(dataset.split.ids(Role::Test), [0, 1]);
    let options = ReadOptions { split_index: 2, ..ReadOptions::default() };
    let error = read_sample(&samples::heterophilous(), &options).unwrap_err();
    assert!(matches!(error, DataError::NoSuchSplit { index: 2, n_splits: 2, .. }), "{error}");
}

#[test]
fn scipy_matrices_in_all_three_forms() {
    let rows = [0, 0, 0, 1, 2, 3, 4, 5];
    let cols = [1, 1, 0, 2, 3, 4, 5, 0];
    let coo: Members = vec![
        ("row", int32(&rows)),
        ("col", int64(&cols)),
        ("format", npy("<U3", false, "()", b"c\0\0\0o\0\0\0o\0\0\0")),
        ("shape", int64(&[6, 6])),
        ("data", int32(&[1; 8])),
    ];
    let csc: Members = vec![
        ("indptr", int32(&[0, 2, 4, 5, 6, 7, 8])),
        ("indices", int32(&[5, 0, 0, 0, 1, 2, 3, 4])),
        ("format", npy("|S3", false, "()", b"csc")),
        ("shape", int64(&[6, 6])),
    ];
    let options = ReadOptions { direction: Direction::Directed, ..ReadOptions::default() };
    let expected = read_sample(&samples::graphsaint(), &options).unwrap().graph;
    for members in [coo, csc] {
        let bytes = npz(&members, CompressionMethod::Deflated);
        let sample = samples::graphsaint().with("adj_full.npz", bytes);
        assert_eq!(read_sample(&sample, &options).unwrap().graph, expected);
    }
}

#[test]
fn every_number_type_is_read() {
    let labels = [0_i64, 1, 0, 1, 0, 1];
    let encoded: Vec<(&str, Vec<u8>)> = vec![
        ("|i1", labels.iter().map(|&v| v as u8).collect()),
        ("|u1", labels.iter().map(|&v| v as u8).collect()),
        ("<i2", samples::concat(&labels, |v| (v as i16).to_le_bytes())),
        ("<u2", samples::concat(&labels, |v| (v as u16).to_le_bytes())),
        (">i4", samples::concat(&labels, |v| (v as i32).to_be_bytes())),
        ("<u4", samples::concat(&labels, |v| (v as u32).to_le_bytes())),
        (">i8", samples::concat(&labels, |v| v.to_be_bytes())),
        ("<u8", samples::concat(&labels, |v| (v as u64).to_le_bytes())),
    ];
    for (descr, bytes) in encoded {
        let sample = samples::arrays().with("label.npy", npy(descr, false, "(6,)", &bytes));
        assert_eq!(classes(&read_default(&sample)), [0, 1, 0, 1, 0, 1], "{descr}");
    }
    // Column after column, big-endian, of double precision.
    let columns = [1.0, 3.0, 5.0, -1.0, 0.0, 4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0];
    let bytes = samples::concat(&columns, f64::to_be_bytes);
    let sample = samples::arrays().with("feat.npy", npy(">f8", true, "(6, 2)", &bytes));
    let Features::Dense(matrix) = read_default(&sample).features else { panic!("dense features") };
    assert_eq!(matrix.values(), samples::FEATURES);
}

#[test]
fn later_header_versions_are_read() {
    let version_1 = int64(&[5]);
    let n_text_bytes = u16::from_le_bytes([version_1[8], version_1[9]]);
    for version in [2, 3] {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        bytes.extend(u32::from(n_text_bytes).to_le_bytes());
        bytes.extend(&version_1[10..]);
        let dataset = read_default(&samples::arrays().with("test.npy", bytes));
        assert_eq!(dataset.split.ids(Role::Test), [5]);
    }
}

/// 300 nodes without edges, in three classes of which the last is small.
fn without_split() -> Sample {
    let labels: Vec<i64> = (0..300).map(|node| if node < 60 { 2 } else { node % 2 }).collect();
    let mut members = samples::gnn_benchmark_members();
    put(&mut members, "adj_indices", int32(&[]));
    put(&mut members, "adj_indptr", int32(&[0; 301]));
    put(&mut members, "adj_shape", int64(&[300, 300]));
    let indptr: Vec<i32> = (0..301).map(|row| row.min(4)).collect();
    put(&mut members, "attr_indptr", int32(&indptr));
    put(&mut members, "attr_shape", int64(&[300, 4]));
    put(&mut members, "labels", int64(&labels));
    let bytes = npz(&members, CompressionMethod::Stored);
    Sample { files: vec![("plain.npz", bytes)], entry: "plain.npz" }
}

#[test]
fn a_missing_split_is_drawn_by_class_and_seed() {
    let dataset = read_default(&without_split());
    for class in 0..3 {
        for (role, expected) in [(Role::Train, 20), (Role::Val, 30)] {
            let of_class = |&&id: &&u32| classes(&dataset)[id as usize] == class;
            let n_found = dataset.split.ids(role).iter().filter(of_class).count();
            assert_eq!(n_found, expected, "{role:?} of class {class}");
        }
    }
    assert_eq!(dataset.split.count(Role::Test), 150);
    assert_eq!(read_default(&without_split()).split, dataset.split);
    let options = ReadOptions { split_seed: 2, ..ReadOptions::default() };
    assert_ne!(read_sample(&without_split(), &options).unwrap().split, dataset.split);
}

#[test]
fn whether_a_split_is_drawn_is_known_before() {
    let has_own = |sample: &Sample| {
        let (_folder, source) = sample.write();
        sylvie_data::has_own_split(&source, None).unwrap()
    };
    for (name, sample) in samples::all().into_iter().chain(crate::samples_text::all()) {
        assert!(has_own(&sample), "{name}");
    }
    assert!(has_own(&crate::samples_pickle::ring()) && !has_own(&without_split()));
    let mut without = crate::samples_text::edge_list();
    without
        .files
        .retain(|(name, _)| !["train", "val", "test"].iter().any(|set| name.starts_with(set)));
    assert!(!has_own(&without));
    for sample in without_splits() {
        assert!(!has_own(&sample), "{}", sample.entry);
    }
    assert!(!sylvie_data::has_own_split("synthetic", None).unwrap());
    assert!(sylvie_data::has_own_split("nowhere", None).is_err());
}

/// Folders that lost their splits.
fn without_splits() -> [Sample; 3] {
    let sets = ["train.npy", "val.npy", "test.npy"];
    [samples::arrays(), samples::graphsaint(), crate::samples_text::ogb()].map(|mut sample| {
        sample.files.retain(|(name, _)| {
            let is_split = sets.iter().any(|set| name.ends_with(set));
            !is_split && !name.ends_with("role.json") && !name.contains("split/")
        });
        sample
    })
}

#[test]
fn folders_without_a_split_are_read_and_one_is_drawn() {
    let split = SplitRule::Random { train: 0.5, val: 0.25 };
    let options = ReadOptions { split, ..ReadOptions::default() };
    for sample in without_splits() {
        let dataset = read_sample(&sample, &options).unwrap();
        let counts = [Role::Train, Role::Val, Role::Test].map(|role| dataset.split.count(role));
        assert!(counts.iter().all(|&count| count > 0), "{}: {counts:?}", sample.entry);
        // Six nodes are too few for 20 and 30 a class: no set may be empty, which is said.
        let error = read_sample(&sample, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("validation"), "{}: {error}", sample.entry);
    }
}

#[test]
fn one_column_of_integers_is_a_class_a_node() {
    let expected = read_default(&samples::arrays()).labels;
    let bytes = samples::concat(&[0_i64, 1, 0, 1, -1, 1], i64::to_le_bytes);
    let column = samples::npy("<i8", false, "(6, 1)", &bytes);
    assert_eq!(read_default(&samples::arrays().with("label.npy", column)).labels, expected);

    let column = samples::npy("|i1", false, "(6, 1)", &[0, 1, 0, 1, 0, 1]);
    for (members, key, sample) in [
        (samples::gnn_benchmark_members(), "labels", samples::gnn_benchmark()),
        (samples::heterophilous_members(), "node_labels", samples::heterophilous()),
    ] {
        let expected = read_default(&sample).labels;
        let mut members = members;
        samples::put(&mut members, key, column.clone());
        let bytes = samples::npz(&members, zip::CompressionMethod::Stored);
        assert_eq!(read_default(&sample.with("ring.npz", bytes)).labels, expected);
    }
}
