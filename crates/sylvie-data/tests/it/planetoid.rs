//! Planetoid sets: pickles as Python 2 wrote them, and everything else that a pickle could be.

use sylvie_data::{Format, ReadOptions, detect, read};
use sylvie_graph::{Features, Labels, Role, UNLABELLED};

use crate::samples::put;
use crate::samples_pickle::{Pickler, csr, graph, one_hot, ring};

#[test]
fn rows_go_where_test_index_says() {
    let (_folder, source) = ring().write();
    assert_eq!(detect(&source).unwrap(), Format::Planetoid);
    let dataset = read(&source, &ReadOptions::default()).unwrap();
    assert_eq!((dataset.name.as_str(), dataset.n_nodes()), ("ring", 514));
    assert_eq!(dataset.graph.n_edges(), 2 * 514);
    assert_eq!(dataset.cleaning.n_loops, 514);
    let split = [Role::Train, Role::Val, Role::Test].map(|role| dataset.split.count(role));
    assert_eq!(split, [10, 500, 3]);
    let Features::Sparse(matrix) = &dataset.features else { panic!("dense features") };
    // Row 0 of tx is node 513, row 1 node 510, row 2 node 511; node 512 is in no file.
    assert_eq!(
        [510, 511, 512, 513].map(|node| matrix.row(node).0.to_vec()),
        [vec![1], vec![2], vec![], vec![0]]
    );
    let Labels::Single { n_classes, classes } = &dataset.labels else { panic!("several labels") };
    assert_eq!((*n_classes, &classes[509..]), (3, &[UNLABELLED, 1, UNLABELLED, UNLABELLED, 0][..]));
}

#[test]
fn a_set_is_named_by_its_folder_its_stem_or_any_of_its_files() {
    let (folder, source) = ring().write();
    let whole = folder.path().to_str().unwrap().to_owned();
    for source in [source.clone(), whole.clone(), format!("{source}.graph"), format!("{source}.x")]
    {
        assert_eq!(detect(&source).unwrap(), Format::Planetoid, "{source}");
        assert_eq!(read(&source, &ReadOptions::default()).unwrap().n_nodes(), 514, "{source}");
    }
    std::fs::copy(folder.path().join("ind.ring.graph"), folder.path().join("ind.other.graph"))
        .unwrap();
    let message = read(&whole, &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("several data sets: ind.other, ind.ring; add the name"), "{message}");
}

fn refused(name: &'static str, bytes: Vec<u8>) -> String {
    let mut sample = ring();
    put(&mut sample.files, name, bytes);
    let (_folder, source) = sample.write();
    let message = read(&source, &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains(name) && !message.contains('\n'), "{message}");
    message
}

#[test]
fn nothing_else_that_a_pickle_could_do_is_done() {
    for (bytes, words) in [
        (&b"\x80\x02cos\nsystem\nU\x04true\x85R."[..], "byte 2: the global `os system`"),
        (b"\x80\x02c__builtin__\neval\n.", "the global `__builtin__ eval`"),
        (b"\x80\x02cnumpy.core\nmultiarray _reconstruct\n.", "the global `numpy.core multiarray"),
        (b"\x80\x03N.", "protocol 3"),
        (b"(dp0\n.", "opcode 0x64"),
        (b"\x80\x02(lp0\n.", "opcode 0x6c"),
        (b"\x80\x02i__builtin__\neval\n.", "opcode 0x69"),
        (b"\x80\x02P12\n.", "opcode 0x50"),
        (b"\x80\x02cnumpy\ndtype\nU\x02O8\x85R.", "other things than numbers"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "a call that is not allowed"),
        (b"\x80\x02c__builtin__\nlist\n)R.", "a call that is not allowed"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "an object that is not allowed"),
        (b"\x80\x02]}b.", "a state for something that has none"),
        (b"\x80\x02N", "the file ends within it"),
        (b"\x80\x02NN.", "an end with something left over"),
        (b"\x80\x02.", "an end with something left over"),
        (b"\x80\x02\x86.", "values that are not there"),
        (b"\x80\x02N(a.", "values that are not there"),
        (b"\x80\x02t.", "a mark that is not there"),
        (b"\x80\x02h\x01.", "a remembered value that is not there"),
        (b"\x80\x02T\xff\xff\xff\xff.", "a length below 0"),
        (b"\x80\x02T\xff\xff\xff\x7f.", "the file ends within it"),
        (b"\x80\x02}(NNNu.", "a key without a value"),
        (b"\x80\x02N.", "no map"),
        (b"", "the file ends within it"),
    ] {
        let message = refused("ind.ring.graph", bytes.to_vec());
        assert!(message.contains(words), "no `{words}` in: {message}");
    }
}

#[test]
fn a_list_that_holds_itself_and_a_flood_of_lists_end() {
    let looped = b"\x80\x02]q\x00h\x00a.".to_vec();
    assert!(refused("ind.ring.graph", looped).contains("no map"));
    let flood = [&b"\x80\x02("[..], &[b']'; 100_000], b"t."].concat();
    assert!(refused("ind.ring.graph", flood).contains("more lists and tuples"));
}

#[test]
fn arrays_are_as_large_as_their_bytes() {
    let huge = Pickler::new().array(&[0xffff, 0xffff], "i4", &[0; 12]).end();
    assert!(
        refused("ind.ring.ally", huge).contains("an array of shape [65535, 65535] with 12 bytes")
    );
    let cube = Pickler::new().array(&[1, 1, 1], "i4", &[0; 4]).end();
    assert!(refused("ind.ring.ally", cube).contains("neither one nor two dimensions"));
}

#[test]
fn files_that_do_not_fit_together() {
    let sample = |name, bytes| {
        let mut sample = ring();
        put(&mut sample.files, name, bytes);
        let (_folder, source) = sample.write();
        read(&source, &ReadOptions::default()).unwrap_err().to_string()
    };
    let fit = "fit, with 500 rows of allx";
    for (name, bytes, words) in [
        ("ind.ring.ty", one_hot(4), fit),
        ("ind.ring.tx", csr(2), fit),
        ("ind.ring.y", one_hot(11), fit),
        ("ind.ring.test.index", b"513\n510\n".to_vec(), fit),
        ("ind.ring.test.index", b"513\n510\n509\n".to_vec(), "509 at position 2"),
        (
            "ind.ring.test.index",
            b"513\n510\n510\n".to_vec(),
            "node 510 at position 2 is in the set",
        ),
        ("ind.ring.test.index", b"513\n510\n99999999\n".to_vec(), "514 nodes where 100000000"),
        ("ind.ring.test.index", b"513\nfive\n511\n".to_vec(), "line 2: `five`"),
        ("ind.ring.graph", graph(515), "515 nodes where 514 should be"),
    ] {
        let message = sample(name, bytes);
        assert!(message.contains(words), "no `{words}` in: {message}");
    }
}
