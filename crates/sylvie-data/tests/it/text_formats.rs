//! Formats made of text, and what their readers say of text that is none of theirs.

use sylvie_data::{Format, ReadOptions, read};
use sylvie_graph::{Dataset, Direction, Features, Labels, Role, UNLABELLED};

use crate::samples::{self, Sample, npy, npz, put};
use crate::samples_text::{self as text, gzip};

fn read_as(sample: &Sample, options: &ReadOptions) -> Dataset {
    let (_folder, source) = sample.write();
    read(&source, options).unwrap()
}

fn refuse(sample: &Sample, words: &[&str]) {
    let (_folder, source) = sample.write();
    let message =
        read(&source, &ReadOptions::default()).expect_err(&format!("{words:?}")).to_string();
    for word in words {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
    assert!(!message.contains('\n') && message.len() < 800, "{message}");
}

#[test]
fn every_format_gives_the_ring() {
    for (name, sample) in text::all() {
        let dataset = read_as(&sample, &ReadOptions::default());
        assert_eq!(dataset.graph.n_edges(), samples::N_RING_EDGES, "{name}");
        assert_eq!((dataset.cleaning.n_loops, dataset.cleaning.n_duplicates), (1, 1), "{name}");
        let values = match &dataset.features {
            Features::Dense(matrix) => matrix.values().to_vec(),
            Features::Sparse(matrix) => matrix.to_dense().values().to_vec(),
        };
        assert_eq!(values, samples::FEATURES, "{name}");
        let split = [Role::Train, Role::Val, Role::Test].map(|role| dataset.split.ids(role));
        assert_eq!(split, [vec![0, 1], vec![2, 3], vec![5]], "{name}");
        match &dataset.labels {
            Labels::Single { classes, .. } => {
                assert_eq!(classes, &[0, 1, 0, 1, UNLABELLED, 1], "{name}");
            }
            Labels::Multi { values, labelled, .. } => {
                assert_eq!(labelled, &[true, true, true, true, false, true], "{name}");
                assert_eq!(values[9..15], [0, 0, 1, 0, 0, 0], "{name}");
            }
        }
    }
}

#[test]
fn edges_go_from_the_first_column_to_the_second() {
    let options = ReadOptions { direction: Direction::Directed, ..ReadOptions::default() };
    for (name, sample) in text::all() {
        let dataset = read_as(&sample, &options);
        assert_eq!(dataset.graph.row(1), [0], "{name}");
        assert_eq!(dataset.graph.row(0), [5], "{name}");
    }
    // A symmetric matrix stands for both.
    let half = "%%MatrixMarket matrix coordinate real skew-symmetric\n6 6 1\n2 1 -1\n";
    let dataset = read_as(&text::matrix_market().with("edges.mtx", half.into()), &options);
    assert_eq!((dataset.graph.row(0), dataset.graph.row(1)), (&[1][..], &[0][..]));
}

#[test]
fn splits_of_an_ogb_folder_go_by_name() {
    let options = ReadOptions { split_index: 1, ..ReadOptions::default() };
    let dataset = read_as(&text::ogb(), &options);
    assert_eq!(dataset.split.ids(Role::Train), [1, 4]);
    let (_folder, source) = text::ogb().write();
    let options = ReadOptions { split_index: 2, ..ReadOptions::default() };
    let message = read(&source, &options).unwrap_err().to_string();
    assert!(message.contains("no split 2") && message.contains("there are 2"), "{message}");
}

#[test]
fn a_folder_without_sets_has_its_split_drawn() {
    let mut sample = text::edge_list();
    sample.files.retain(|(name, _)| !["train.npy", "val.csv", "test.csv.gz"].contains(name));
    let (folder, source) = sample.write();
    let message = read(&source, &ReadOptions::default()).unwrap_err().to_string();
    // Twenty training nodes a class leave no others here.
    assert!(message.contains("the validation set has no labelled node"), "{message}");
    std::fs::write(folder.path().join("val.csv"), "2\n").unwrap();
    let message = read(&source, &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("train.npy: no such file"), "{message}");
}

#[test]
fn text_of_other_things() {
    let csv = |text: &str| text::edge_list().with("edges.csv", text.as_bytes().to_vec());
    refuse(&csv("0,1\n0,x\n"), &["edges.csv, line 2: `x` where a node from 0 to 5 should be"]);
    refuse(&csv("0,1\n\n# on\n6,0\n"), &["line 4: `6`"]);
    refuse(&csv("0,1\n4294967296,0\n"), &["line 2: `4294967296`"]);
    refuse(&csv("0,1\n-1,0\n"), &["line 2: `-1`"]);
    refuse(&csv("0,1\n1.0,0\n"), &["line 2: `1.0`"]);
    refuse(&csv("0,1\n3\n"), &["line 2: `` where a node"]);
    refuse(&csv("source,target\nfrom,to\n"), &["line 2: `from`"]);
    refuse(&csv("0,1\n0,\u{1}\u{202e}\n"), &["line 2: `\\u{1}"]);
    let long = "7".repeat(500);
    refuse(&csv(&format!("0,{long}\n")), &["line 1: `7777", "...` where a node"]);
    let labels = |text: &str| text::edge_list().with("labels.csv", text.as_bytes().to_vec());
    refuse(
        &labels("0\n1\ncat\n"),
        &["labels.csv, line 3: `cat` where a class, or nothing or `nan`"],
    );
    refuse(&labels("0\n1\n0.5\n"), &["line 3: `0.5`"]);
    // A first line that is blank is a node, not a row of names.
    let blank = read_as(&labels("\n1\n0\n1\n0\n1\n"), &ReadOptions::default());
    assert_eq!(blank.labels.n_unlabelled(), 1);
    refuse(&labels("0\n1\n0\n"), &["3 rows where 6 should be"]);
    refuse(&labels("0\n1\n0\n0\n0\n0\n0\n"), &["line 7: `0` where the end, after 6 nodes,"]);
    refuse(&labels("0,1\n1\n"), &["line 2: `1` where 2 labels as before, not 1,"]);
    refuse(&labels("0,1\n1,2\n"), &["line 2: `2` where 0 or 1 where nodes have several labels"]);
    refuse(
        &labels("9\n1\n0\n1\n0\n1\n"),
        &["labels.csv: 9 at position 0 where a class from 0 to 5"],
    );
}

#[test]
fn ogb_files_that_do_not_fit_together() {
    let with = |name, text: &str| text::ogb().with(name, gzip(text.as_bytes()));
    refuse(&with("raw/num-node-list.csv.gz", "7\n"), &["node-label.csv.gz: 6 rows where 7"]);
    refuse(
        &with("raw/num-node-list.csv.gz", "6\n2\n"),
        &["num-node-list.csv.gz, line 2", "one graph"],
    );
    refuse(&with("raw/num-node-list.csv.gz", "six\n"), &["line 1: `six` where a number"]);
    refuse(&with("raw/num-node-list.csv.gz", ""), &["0 lines where 1"]);
    refuse(&with("raw/num-edge-list.csv.gz", "9\n"), &["edge.csv.gz: 8 edges where 9 should be"]);
    refuse(&with("raw/num-edge-list.csv.gz", "7\n"), &["line 8", "the end, after 7 edges,"]);
    refuse(&with("raw/edge.csv.gz", "0,1,2\n"), &["line 1: `0,1,2` where two node numbers"]);
    refuse(&with("raw/edge.csv.gz", "source,target\n0,1\n"), &["line 1: `source`"]);
    refuse(
        &with("raw/node-feat.csv.gz", "1,2\n3\n"),
        &["line 2: `3` where 2 numbers as before, not 1,"],
    );
    refuse(&with("raw/node-feat.csv.gz", "1,inf\n"), &["line 1: `inf` where a finite number"]);
    refuse(&with("raw/node-feat.csv.gz", "1,2\n"), &["node-feat.csv.gz: 1 row where 6"]);
    refuse(&with("split/b/train.csv.gz", "0\n6\n"), &["line 2: `6`"]);
    refuse(&with("split/b/train.csv.gz", "0\n2\n"), &["node 2 is in the training set and in"]);
    let members = vec![("node_label", npy("<f4", false, "(6, 1)", &[0; 24]))];
    let labels = npz(&members, zip::CompressionMethod::Stored);
    let three = vec![("num_nodes_list", samples::int64(&[3, 3]))];
    let arrays = text::ogb_arrays().with("raw/node-label.npz", labels);
    let arrays = arrays.with("raw/data.npz", npz(&three, zip::CompressionMethod::Stored));
    refuse(&arrays, &["num_nodes_list", "[3, 3]", "the one number 6"]);
}

#[test]
fn matrices_that_are_none() {
    let mtx = |text: &str| text::matrix_market().with("edges.mtx", text.as_bytes().to_vec());
    let head = "%%MatrixMarket matrix coordinate pattern general\n";
    refuse(&mtx("6 6 1\n1 1\n"), &["edges.mtx, line 1", "%%MatrixMarket matrix coordinate"]);
    refuse(&mtx("%%MatrixMarket matrix array real general\n6 6\n"), &["line 1"]);
    refuse(&mtx("%%MatrixMarket matrix coordinate complex general\n"), &["`complex` where real"]);
    refuse(
        &mtx("%%MatrixMarket matrix coordinate real hermitian\n"),
        &["`hermitian` where general"],
    );
    refuse(&mtx(head), &["0 matrices where 1"]);
    refuse(&mtx(&format!("{head}7 6 1\n1 1\n")), &["shape [7, 6] where 6 x 6"]);
    refuse(&mtx(&format!("{head}6 6 2\n1 1\n")), &["1 entry where 2"]);
    refuse(&mtx(&format!("{head}6 6 1\n1 1\n2 2\n")), &["line 4", "the end, after 1 entries,"]);
    refuse(&mtx(&format!("{head}6 6 1\n0 1\n")), &["line 3: `0` where a row from 1 to 6"]);
    refuse(&mtx(&format!("{head}6 6 1\n1 7\n")), &["line 3: `7` where a column from 1 to 6"]);
    refuse(&mtx(&format!("{head}6 6 1\n1 1 1\n")), &["a row and a column"]);
    refuse(&mtx(&format!("{head}6 6 99999999999999999999\n")), &["rows, columns and entries"]);
    let feat = |text: &str| text::matrix_market().with("feat.mtx.gz", gzip(text.as_bytes()));
    let head = "%%MatrixMarket matrix coordinate real general\n";
    refuse(&feat(&format!("{head}4294967294 3 1\n1 1 1\n")), &["feat.mtx.gz", "4294967294 rows"]);
    refuse(&feat(&format!("{head}6 2 1\n1 1 nan\n")), &["line 3: `nan` where a finite number"]);
    refuse(&feat(&format!("{head}6 2 1\n1 1\n")), &["a row, a column and a value"]);
}

#[test]
fn a_gzipped_file_that_expands_without_end_is_refused_early() {
    let line = b"0,0\n".repeat(1 << 20);
    let mut bomb = Vec::new();
    for _ in 0..24 {
        // Members one after the other are one file.
        bomb.extend(gzip(&line));
    }
    let mut sample = text::edge_list();
    sample.files.remove(0);
    put(&mut sample.files, "edges.csv.gz", bomb.clone());
    refuse(&sample, &["edges.csv.gz", "expand to", "over 256 times as many", "unpack it first"]);
    refuse(&text::ogb().with("raw/edge.csv.gz", bomb), &["line 9", "the end, after 8 edges,"]);
    let spaces = gzip(&vec![b' '; 80 << 20]);
    refuse(&text::ogb().with("raw/edge.csv.gz", spaces), &["edge.csv.gz"]);
}

#[test]
fn reddit_archives() {
    let with = |key, bytes| {
        let mut members = text::reddit_data();
        put(&mut members, key, bytes);
        text::reddit().with("reddit_data.npz", npz(&members, zip::CompressionMethod::Stored))
    };
    refuse(&with("node_types", samples::int32(&[1, 2, 3])), &["node_types", "6 rows"]);
    refuse(&with("feature", samples::float32(3, &[0.0; 6])), &["feature", "6 rows"]);
    refuse(&with("label", samples::int64(&[0, 1])), &["node_types", "2 rows"]);
    let float = npy("<f8", false, "(6,)", &samples::concat(&[0.5_f64; 6], f64::to_le_bytes));
    refuse(&with("label", float), &["label", "0.5 at position 0"]);
    let options = ReadOptions { format: Some(Format::Reddit), ..ReadOptions::default() };
    let message = read("/dev/null", &options).unwrap_err().to_string();
    assert!(message.contains("where a folder is expected"), "{message}");
}

/// Lines that are taken from their bytes and lines that are looked at field by field give the same edges, and
/// are counted the same.
#[test]
fn pairs_may_be_written_in_many_ways() {
    let plain = "0,1\n1,2\n2,3\n3,4\n4,5\n5,0\n";
    let expected =
        read_as(&text::edge_list().with("edges.csv", plain.into()), &ReadOptions::default());
    let mixed =
        "source,target\n0,1\r\n\n1 2\n# nothing\n  2 ,\t3 \n0000000003,000000004\n4\t5\n5,0,7.5";
    let found =
        read_as(&text::edge_list().with("edges.csv", mixed.into()), &ReadOptions::default());
    assert_eq!(found.graph, expected.graph);
    assert_eq!(found.cleaning, expected.cleaning);

    for (line, found) in [
        ("6,0", "`6`"),
        ("0,6", "`6`"),
        ("0,4294967296", "`4294967296`"),
        ("0,9999999999999999999999", "`9999999999999999999999`"),
        ("0,-1", "`-1`"),
        ("0;1", "`0;1`"),
        ("0,", "``"),
        ("0,1x", "`1x`"),
    ] {
        let sample = text::edge_list().with("edges.csv", format!("0,1\n1,2\n\n{line}\n").into());
        refuse(&sample, &["line 4", found, "a node from 0 to 5"]);
    }
}
