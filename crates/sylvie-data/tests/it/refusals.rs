//! What is wrong with a file is said with its name, the place, and what would be right.

use sylvie_data::{DataError, Format, ReadOptions, detect, read};
use zip::CompressionMethod;

use crate::samples::{
    self, Members, Sample, bools, float32, int32, int64, npy, npy_with_text, npz, put,
};

/// Reads the sample as `format`, and checks that the message has all `words` on one line.
fn refuse_as(format: Option<Format>, sample: &Sample, words: &[&str]) {
    let (_folder, source) = sample.write();
    let options = ReadOptions { format, ..ReadOptions::default() };
    let message = read(&source, &options).expect_err(&format!("{words:?}")).to_string();
    for word in words {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
    assert!(!message.contains('\n'), "{message}");
}

fn refuse(sample: &Sample, words: &[&str]) {
    refuse_as(None, sample, words);
}

fn array(name: &'static str, bytes: Vec<u8>) -> Sample {
    samples::arrays().with(name, bytes)
}

fn member(key: &'static str, bytes: Vec<u8>) -> Sample {
    let mut members = samples::gnn_benchmark_members();
    put(&mut members, key, bytes);
    let bytes = npz(&members, CompressionMethod::Stored);
    samples::gnn_benchmark().with("ring.npz", bytes)
}

fn hetero(key: &'static str, bytes: Vec<u8>) -> Sample {
    let mut members = samples::heterophilous_members();
    put(&mut members, key, bytes);
    let bytes = npz(&members, CompressionMethod::Deflated);
    samples::heterophilous().with("ring.npz", bytes)
}

fn json(name: &'static str, text: &str) -> Sample {
    samples::graphsaint().with(name, text.as_bytes().to_vec())
}

#[test]
fn paths_and_words() {
    let message = |source: &str| read(source, &ReadOptions::default()).unwrap_err().to_string();
    assert_eq!(message("/no/such/place"), "/no/such/place: no such file or folder");
    let folder = tempfile::tempdir().unwrap();
    let unknown = message(folder.path().to_str().unwrap());
    for word in ["indptr.npy", "adj_full.npz", "--format arrays|gnn-benchmark|graphsaint"] {
        assert!(unknown.contains(word), "{unknown}");
    }
    let text = folder.path().join("edges.txt");
    std::fs::write(&text, "0 1\n").unwrap();
    let error = detect(text.to_str().unwrap()).unwrap_err();
    assert!(matches!(error, DataError::UnknownFormat { .. }), "{error}");
    let word = "pickled".parse::<Format>().unwrap_err().to_string();
    assert_eq!(word, format!("unknown format `pickled`: allowed are {}", Format::CHOICES));
    let options = ReadOptions { format: Some(Format::Synthetic), ..ReadOptions::default() };
    assert!(read("elsewhere", &options).unwrap_err().to_string().contains("synthetic:key=value"));
}

#[test]
fn archives() {
    let whole = samples::gnn_benchmark();
    let bytes = &whole.files[0].1;
    refuse(
        &whole.with("ring.npz", bytes[..bytes.len() / 2].to_vec()),
        &["ring.npz", "npz archive"],
    );
    refuse(&whole.with("ring.npz", b"no archive".to_vec()), &["ring.npz", "npz archive"]);
    let empty = npz(&Members::new(), CompressionMethod::Stored);
    refuse(&whole.with("ring.npz", empty), &["ring.npz", "no known format"]);
    let mut members = samples::gnn_benchmark_members();
    members.retain(|(key, _)| *key != "labels");
    let bytes = npz(&members, CompressionMethod::Stored);
    refuse(&whole.with("ring.npz", bytes), &["no key `labels` or `labels_indptr`", "adj_data, "]);
    let sample = samples::graphsaint();
    refuse_as(Some(Format::Heterophilous), &whole, &["no key `node_labels`", "adj_shape"]);
    refuse_as(Some(Format::Arrays), &sample, &["indptr.npy: no such file"]);
    // A flipped bit in the values of a stored member: the checksum sees it.
    let mut bytes = whole.files[0].1.clone();
    let at = bytes.windows(4).position(|four| four == 1.0_f32.to_le_bytes()).unwrap();
    bytes[at] ^= 1;
    let labels_at = bytes.windows(6).rposition(|six| six == [0, 1, 0, 1, 0, 1]).unwrap();
    bytes[labels_at] ^= 1;
    refuse(&whole.with("ring.npz", bytes), &["key `labels`", "hecksum"]);
}

#[test]
fn headers_and_lengths() {
    let good = samples::arrays().files[2].1.clone();
    refuse(&array("feat.npy", good[..good.len() - 3].to_vec()), &["feat.npy", "45 bytes", "48"]);
    refuse(&array("feat.npy", [&good[..], b"more"].concat()), &["feat.npy", "52 bytes", "48"]);
    refuse(&array("feat.npy", good[..40].to_vec()), &["feat.npy", "the file ends within it"]);
    refuse(&array("feat.npy", b"words".to_vec()), &["feat.npy", "the file ends within it"]);
    refuse(&array("feat.npy", vec![b'x'; 200]), &["feat.npy", "magic"]);
    let mut version_9 = good.clone();
    version_9[6] = 9;
    refuse(&array("feat.npy", version_9), &["version 9"]);
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    refuse(&array("feat.npy", long), &["4294967295 bytes of text"]);
    refuse(
        &array("feat.npy", npy("<f4", false, "(6, 99999999999)", &[])),
        &["feat.npy", "0 bytes"],
    );
    refuse(
        &array("feat.npy", npy("<f4", false, "(9999999999, 9999999999)", &[])),
        &["shape too large"],
    );
    refuse(&array("feat.npy", npy("<f4", false, "(-6, -2)", &[])), &["unexpected byte 0x2d"]);
    refuse(&array("feat.npy", npy_with_text("[1, 2]", &[])), &["dict"]);
    refuse(&array("feat.npy", npy_with_text(&"(".repeat(5000), &[])), &["unexpected byte 0x28"]);
}

#[test]
fn types_and_shapes() {
    refuse(&array("feat.npy", npy("|O", false, "(6, 2)", b".")), &["feat.npy", "'|O'", "numbers"]);
    refuse(&array("feat.npy", npy("<U1", false, "(6, 2)", &[0; 48])), &["'<U1'", "f4, f8"]);
    refuse(&array("feat.npy", npy("<c8", false, "(6, 2)", &[0; 96])), &["'<c8'"]);
    refuse(
        &array("label.npy", samples::float32_vector(&[0.0; 6])),
        &["label.npy", "'<f4'", "integers"],
    );
    refuse(
        &array("feat.npy", int64(&[0; 6])),
        &["feat.npy", "shape [6] where 2 dimensions should be"],
    );
    refuse(&array("feat.npy", float32(5, &[0.0; 10])), &["shape [5, 2]", "6 rows"]);
    refuse(&array("feat.npy", npy("<f4", false, "(6, 0)", &[])), &["at least one column"]);
    refuse(&array("label.npy", int64(&[0; 5])), &["label.npy", "shape [5]", "6 rows"]);
    refuse(&array("train.npy", bools(&[1; 5])), &["train.npy", "shape [5]", "one a node"]);
    refuse(&member("adj_shape", int64(&[6, 7])), &["key `adj_shape`", "[6, 7]"]);
    refuse(
        &member("adj_shape", int64(&[7, 7])),
        &["key `adj_indptr`", "[7]", "7 rows and one more"],
    );
    refuse(&member("adj_shape", int64(&[6])), &["key `adj_shape`", "two extents"]);
    refuse(&member("labels", int64(&[0; 7])), &["key `labels`", "[7]", "6 rows"]);
    refuse(&member("attr_shape", int64(&[6, 2])), &["key `attr_indices`", "not below 2"]);
    refuse(
        &hetero("edges", npy("<i8", false, "(4, 4)", &[0; 128])),
        &["key `edges`", "two columns"],
    );
    refuse(
        &hetero("val_masks", npy("|b1", false, "(2, 5)", &[0; 10])),
        &["key `val_masks`", "6 nodes"],
    );
    refuse(&hetero("node_features", float32(5, &[0.0; 5])), &["key `node_features`", "6 rows"]);
}

#[test]
fn values() {
    refuse(
        &array("indices.npy", int32(&[1, 1, 0, 2, 3, 4, 5, -4])),
        &["indices.npy", "-4 at position 7"],
    );
    refuse(
        &array("indices.npy", int32(&[1, 1, 0, 2, 3, 4, 6, 0])),
        &["index 6 at position 6", "below 6"],
    );
    refuse(
        &array("indptr.npy", int32(&[0, 3, 4, 3, 6, 7, 8])),
        &["indptr.npy", "3 at position 3", "4"],
    );
    refuse(&array("indptr.npy", int32(&[1, 3, 4, 5, 6, 7, 8])), &["1 at position 0"]);
    refuse(&array("indptr.npy", int32(&[0, 3, 4, 5, 6, 7, 9])), &["9 at position 6", "of 8"]);
    refuse(&array("label.npy", int64(&[0, 1, 0, -2, 0, 1])), &["label.npy", "-2 at position 3"]);
    refuse(&array("label.npy", int64(&[0, 1, 0, 6, 0, 1])), &["6 at position 3", "0 to 5"]);
    refuse(
        &array("label.npy", npy("|u1", false, "(6, 2)", &[0, 1, 2, 0, 1, 1, 0, 0, 0, 0, 1, 1])),
        &["2 at position 2"],
    );
    refuse(
        &array("train.npy", npy("|b1", false, "(6,)", &[1, 1, 0, 9, 0, 0])),
        &["train.npy", "position 3"],
    );
    let mut values = samples::FEATURES;
    values[5] = f32::NAN;
    refuse(&array("feat.npy", float32(6, &values)), &["feat.npy", "row 2, column 1", "finite"]);
    values[5] = f32::INFINITY;
    refuse(
        &hetero("node_features", float32(6, &values)),
        &["key `node_features`", "row 2, column 1"],
    );
    let sparse = samples::float32_vector(&[1.0, 2.0, f32::NAN, 4.0]);
    refuse(&member("attr_data", sparse), &["key `attr_data`", "row 1, column 1"]);
    let huge = samples::concat(&[1e300_f64; 12], f64::to_le_bytes);
    refuse(&array("feat.npy", npy("<f8", false, "(6, 2)", &huge)), &["row 0, column 0"]);
    let ends = samples::concat(&[0_i64, 1, 1, 77], i64::to_le_bytes);
    refuse(
        &hetero("edges", npy("<i8", false, "(2, 2)", &ends)),
        &["key `edges`", "index 77", "position 1"],
    );
    refuse(
        &member("adj_indices", int32(&[1, 1, 0, 2, 3, 4, 5, 8])),
        &["key `adj_indices`", "index 8"],
    );
}

#[test]
fn splits() {
    refuse(&array("train.npy", bools(&[0; 6])), &["the training set has no labelled node"]);
    refuse(&array("test.npy", int64(&[])), &["the test set has no labelled node"]);
    refuse(&array("test.npy", int64(&[4])), &["the test set has no labelled node"]);
    // numpy saves an empty list as floats.
    refuse(&array("val.npy", npy("<f8", false, "(0,)", &[])), &["the validation set has no"]);
    refuse(&array("test.npy", int64(&[3])), &["node 3", "validation set", "test set"]);
    refuse(&array("test.npy", int64(&[6])), &["test.npy", "6 at position 0", "below 6"]);
    let overlap = r#"{"tr": [0, 1], "va": [1], "te": [5]}"#;
    refuse(&json("role.json", overlap), &["role.json", "node 1", "training set"]);
}

#[test]
fn node_numbers_are_given_once_and_are_no_mask() {
    let mask = [1, 1, 0, 0, 0, 0];
    let words = ["6 integers", "look like a mask", "bool"];
    for name in ["train.npy", "val.npy", "test.npy"] {
        refuse(&array(name, int64(&mask)), &[&[name][..], &words].concat());
        refuse(&array(name, npy("|u1", false, "(6,)", &[0, 0, 0, 0, 1, 1])), &words);
        refuse(&array(name, int64(&[0, 0, 1])), &["3 integers", "look like a mask"]);
    }
    refuse(&array("train.npy", int64(&[4, 0, 4])), &["train.npy", "node 4 at position 2"]);

    let split = |key: &'static str, values: &[i64]| {
        let mut members: Members =
            vec![("train", int64(&[0, 1])), ("valid", int64(&[2, 3])), ("test", int64(&[5]))];
        put(&mut members, key, int64(values));
        let bytes = npz(&members, CompressionMethod::Stored);
        samples::gnn_benchmark().with("ring_split.npz", bytes)
    };
    refuse(&split("train", &mask), &["ring_split.npz, key `train`", "look like a mask"]);
    refuse(&split("valid", &[2, 3, 2]), &["key `valid`", "node 2 at position 2"]);

    let roles = r#"{"tr": [0, 1], "va": [3, 2, 3], "te": [5]}"#;
    refuse(&json("role.json", roles), &["role.json, key `va`", "node 3 at position 2"]);
    let roles = r#"{"tr": [1, 1, 0, 0, 0, 0], "va": [3, 2], "te": [5]}"#;
    refuse(&json("role.json", roles), &["key `tr`", "look like a mask"]);
}

#[test]
fn only_one_format_has_several_splits() {
    for (name, sample) in samples::all() {
        let (_folder, source) = sample.write();
        let options = ReadOptions { split_index: 7, ..ReadOptions::default() };
        let message = read(&source, &options).expect_err(name).to_string();
        assert!(message.contains("no split 7") && message.contains("--split-index"), "{message}");
    }
    let options = ReadOptions { split_index: 1, ..ReadOptions::default() };
    assert!(read("synthetic:nodes=200", &options).is_err());
}

#[test]
fn files_and_folders_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &std::path::Path, format| {
        let options = ReadOptions { format, ..ReadOptions::default() };
        read(path.to_str().unwrap(), &options).unwrap_err().to_string()
    };
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for format in [Format::GnnBenchmark, Format::Heterophilous] {
        let message = refused(folder.path(), Some(format));
        assert!(message.ends_with(": a folder where a file is expected"), "{message}");
    }
    for format in [Format::Arrays, Format::GraphSaint] {
        let message = refused(&file, Some(format));
        assert!(message.ends_with("file: a file where a folder is expected"), "{message}");
    }
    let line = folder.path().join("two\nlines\u{1b}[2J");
    let message = refused(&line, None);
    assert!(message.contains("two\\nlines\\u{1b}[2J: no such file"), "{message}");
}

/// A pipe without a writer would be waited for without end.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_opened() {
    let pipe_in_place_of = |sample: &Sample, name: &str, format| {
        let (folder, source) = sample.write();
        let path = folder.path().join(name);
        std::fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let options = ReadOptions { format, ..ReadOptions::default() };
        let message = read(&source, &options).expect_err(name).to_string();
        let said = format!("{name}: a device, pipe or socket where a file is expected");
        assert!(message.ends_with(&said), "{message}");
    };
    for name in ["indptr.npy", "feat.npy", "label.npy", "test.npy"] {
        pipe_in_place_of(&samples::arrays(), name, Some(Format::Arrays));
    }
    for name in ["adj_full.npz", "role.json", "class_map.json", "feats.npy"] {
        pipe_in_place_of(&samples::graphsaint(), name, Some(Format::GraphSaint));
    }
    for format in [None, Some(Format::GnnBenchmark)] {
        pipe_in_place_of(&samples::gnn_benchmark(), "ring.npz", format);
    }
    pipe_in_place_of(&samples::gnn_benchmark(), "ring_split.npz", None);
    let message = read("/dev/zero", &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("a device, pipe or socket"), "{message}");
}

#[test]
fn json_files() {
    refuse(
        &json("role.json", r#"{"tr": [0], "va": [9], "te": [5]}"#),
        &["role.json, key `va`", "9 at"],
    );
    refuse(&json("role.json", r#"{"tr": [0], "va": [1]}"#), &["role.json", "te", "line 1"]);
    refuse(&json("role.json", r#"{"tr": [0], "va": [-1], "te": [5]}"#), &["role.json", "-1"]);
    refuse(&json("class_map.json", r#"{"0": 7, "1": 3"#), &["class_map.json", "line 1"]);
    refuse(
        &json("class_map.json", r#"{"0": 7, "1": 3}"#),
        &["class_map.json", "no entry for node 2"],
    );
    refuse(&json("class_map.json", r#"{"0": 7, "0": 3}"#), &["key `0`", "twice"]);
    refuse(&json("class_map.json", r#"{"0": 7, "8": 3}"#), &["key `8`", "below 6"]);
    refuse(&json("class_map.json", r#"{"zero": 7}"#), &["`zero` is not a node number"]);
    refuse(&json("class_map.json", r#"{"0": 0.5}"#), &["0.5", "integer or a list"]);
    refuse(&json("class_map.json", r#"{"0": [1, 2]}"#), &["node 0 holds 2"]);
    refuse(&json("class_map.json", r#"{"0": [1, 0], "1": [1]}"#), &["node 1 has 1 values, not 2"]);
    refuse(&json("class_map.json", r#"{"0": [1, 0], "1": 3}"#), &["node 1 has an integer"]);
    refuse(&json("class_map.json", r#"{"0": 3, "1": [1, 0]}"#), &["node 1 has a list"]);
    refuse(&json("class_map.json", "[1, 2]"), &["a map from node numbers"]);
}

#[test]
fn scipy_matrices() {
    let change = |key: &'static str, bytes: Vec<u8>| {
        let mut members = samples::scipy_csr();
        put(&mut members, key, bytes);
        samples::graphsaint().with("adj_full.npz", npz(&members, CompressionMethod::Deflated))
    };
    refuse(
        &change("format", npy("|S3", false, "()", b"bsr")),
        &["key `format`", "`bsr`", "csr, csc or coo"],
    );
    refuse(&change("format", int64(&[3])), &["key `format`", "short string"]);
    refuse(&change("shape", int64(&[6, 5])), &["key `shape`", "[6, 5]", "6 x 6"]);
    let coo: Members = vec![
        ("row", int32(&[0])),
        ("col", int32(&[1])),
        ("format", npy("|S3", false, "()", b"coo")),
        ("shape", int64(&[4_000_000_000, 4_000_000_000])),
    ];
    let sample = samples::graphsaint().with("adj_full.npz", npz(&coo, CompressionMethod::Stored));
    refuse(&sample, &["key `shape`", "4000000000"]);
}
