//! Folders that are not as they were written: refused by name, whatever the bytes are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proptest::prelude::*;
use safetensors::{SafeTensors, serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sylvie_graph::PartGraph;
use sylvie_partition::{
    About, ArrayFault, FolderError, FolderFault, FolderPart, Manifest, PartitionFolder,
};

use crate::folder::{about, write};
use crate::graphs::{Kind, community_case};

const PART: &str = "part-0001.safetensors";

/// Names and bytes of files.
type Files = Vec<(String, Vec<u8>)>;

/// The files of a folder, the manifest first and [`PART`] second; written once, then copied.
fn pristine(kind: Kind, inductive: bool) -> &'static Files {
    static FILES: [OnceLock<Files>; 4] = [const { OnceLock::new() }; 4];
    FILES[usize::from(kind == Kind::Rich) * 2 + usize::from(inductive)].get_or_init(|| {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("parts");
        write(&dir, &community_case(), kind, &about(inductive));
        let names = ["manifest.json", PART, "part-0000.safetensors", "part-0002.safetensors"];
        let names = names.into_iter().chain(["part-0003.safetensors"]);
        names.map(|name| (name.to_owned(), fs::read(dir.join(name)).unwrap())).collect()
    })
}

struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    fn new(kind: Kind, inductive: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("parts")).unwrap();
        for (name, bytes) in pristine(kind, inductive) {
            fs::write(root.path().join("parts").join(name), bytes).unwrap();
        }
        Self { root }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("parts")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    fn read(&self) -> Result<FolderPart, FolderError> {
        PartitionFolder::open(&self.dir())?.read_part(1)
    }

    #[track_caller]
    fn refused(&self, name: &str) -> FolderFault {
        let error = self.read().unwrap_err();
        assert_eq!(error.path, self.path(name), "{error}");
        let text = error.to_string();
        assert!(text.contains(name) && !text.contains('\n'), "{text}");
        error.fault
    }

    /// Changes the bytes of an array of part 1, and sums of files so that they agree.
    fn change(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let bytes = fs::read(self.path(PART)).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let arrays = SafeTensors::deserialize(&bytes).unwrap();
        let mut data = arrays.tensor(name).unwrap().data().to_vec();
        change(&mut data);
        let changed = arrays.iter().map(|(key, array)| {
            let data = if key == name { &data[..] } else { array.data() };
            let view =
                safetensors::tensor::TensorView::new(array.dtype(), array.shape().to_vec(), data);
            (key.to_owned(), view.unwrap())
        });
        fs::write(self.path(PART), serialize(changed, header.metadata().clone()).unwrap()).unwrap();
        repair(&self.dir());
    }
}

/// Writes a manifest with the sums of what lies in the folder.
fn repair(dir: &Path) {
    let path = dir.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for part in manifest["parts"].as_array_mut().unwrap() {
        let bytes = fs::read(dir.join(part["file"].as_str().unwrap())).unwrap();
        part["bytes"] = bytes.len().into();
        part["sha256"] = hexadecimal(&bytes).into();
    }
    seal(&path, manifest);
}

/// Writes a manifest with the checksum that it should have.
fn seal(path: &Path, mut manifest: Value) {
    manifest["checksum"] = "0".repeat(64).into();
    let blank = serde_json::to_string(&manifest).unwrap();
    let sum = hexadecimal(blank.as_bytes());
    fs::write(path, blank.replace(&"0".repeat(64), &sum)).unwrap();
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn set_u32(at: usize, value: u32) -> impl Fn(&mut Vec<u8>) {
    move |bytes| bytes[at * 4..][..4].copy_from_slice(&value.to_le_bytes())
}

#[test]
fn files_that_are_cut_altered_missing_or_of_another_are_named() {
    let folder = Folder::new(Kind::Plain, false);
    let whole = fs::read(folder.path(PART)).unwrap();
    folder.read().unwrap();

    for n_bytes in [0, 7, 100, whole.len() - 1] {
        fs::write(folder.path(PART), &whole[..n_bytes]).unwrap();
        assert!(matches!(folder.refused(PART), FolderFault::Length { .. }), "{n_bytes}");
    }
    let mut altered = whole.clone();
    *altered.last_mut().unwrap() ^= 1;
    fs::write(folder.path(PART), &altered).unwrap();
    assert!(matches!(folder.refused(PART), FolderFault::Altered { .. }));

    fs::copy(folder.path("part-0002.safetensors"), folder.path(PART)).unwrap();
    let fault = folder.refused(PART);
    assert!(matches!(fault, FolderFault::OtherPart { expected: 1, found: 2 }), "{fault}");

    let other = folder.root.path().join("other");
    write(&other, &community_case(), Kind::Plain, &About { seed: 8, ..about(false) });
    fs::copy(other.join(PART), folder.path(PART)).unwrap();
    assert!(matches!(folder.refused(PART), FolderFault::Mixed { .. }));

    fs::remove_file(folder.path(PART)).unwrap();
    assert!(matches!(folder.refused(PART), FolderFault::Missing));
    fs::create_dir(folder.path(PART)).unwrap();
    assert!(matches!(folder.refused(PART), FolderFault::NotAFile));
    // A rank needs the manifest and its own part alone.
    PartitionFolder::open(&folder.dir()).unwrap().read_part(0).unwrap();
    fs::remove_dir(folder.path(PART)).unwrap();
    fs::write(folder.path(PART), &whole).unwrap();
    for part in [0, 2, 3] {
        fs::remove_file(folder.path(&format!("part-000{part}.safetensors"))).unwrap();
    }
    folder.read().unwrap();
    let error = PartitionFolder::open(&folder.dir()).unwrap().read_part(4).unwrap_err();
    assert!(error.to_string().contains("has 4 parts, and there is no part 4"), "{error}");
}

#[test]
fn manifests_that_are_no_such_are_named() {
    const MANIFEST: &str = "manifest.json";
    let folder = Folder::new(Kind::Plain, true);
    let path = folder.path(MANIFEST);
    let text = fs::read_to_string(&path).unwrap();
    let whole: Value = serde_json::from_str(&text).unwrap();

    fs::write(&path, text.replace("\"seed\": 7", "\"seed\": 8")).unwrap();
    assert!(matches!(folder.refused(MANIFEST), FolderFault::Altered { .. }));
    fs::write(&path, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    assert!(matches!(folder.refused(MANIFEST), FolderFault::Version { found: 2 }));
    fs::write(&path, text.replace("sylvie-partition", "other")).unwrap();
    assert!(matches!(folder.refused(MANIFEST), FolderFault::Foreign { .. }));
    for wrong in ["", "{}", "[1]", &text[..text.len() / 2], &"[".repeat(100_000)] {
        fs::write(&path, wrong).unwrap();
        assert!(matches!(folder.refused(MANIFEST), FolderFault::Json { .. }), "{wrong:.20}");
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    folder.refused(MANIFEST);

    // Whole by its checksum, but not in itself.
    let part = |manifest: &mut Value| manifest["parts"].as_array_mut().unwrap().pop();
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut manifest = whole.clone();
        change(&mut manifest);
        seal(&path, manifest);
        folder.refused(MANIFEST).to_string()
    };
    assert!(refused(&|m| drop(part(m))).contains("parts of the quality"));
    assert!(refused(&|m| m["parts"] = Value::Array(Vec::new())).contains("0 parts"));
    assert!(refused(&|m| m["nodes"] = 99.into()).contains("own nodes of all parts"));
    assert!(refused(&|m| m["edges"] = 1.into()).contains("edges of all parts"));
    assert!(refused(&|m| m["nodes"] = u64::MAX.into()).contains("nodes"));
    assert!(refused(&|m| m["classes"] = 0.into()).contains("classes"));
    assert!(refused(&|m| m["inductive"] = false.into()).contains("qualities"));
    let escape = refused(&|m| m["parts"][1]["file"] = "../part-0001.safetensors".into());
    assert!(escape.contains("in the place of part-0001.safetensors"), "{escape}");

    seal(&path, whole);
    folder.read().unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(folder.refused(MANIFEST), FolderFault::Missing));
    let error = PartitionFolder::open(&folder.path(PART)).unwrap_err();
    assert!(matches!(error.fault, FolderFault::NotAFolder));
    let error = PartitionFolder::open(&folder.path("none")).unwrap_err();
    assert!(error.to_string().contains("sylvie partition --out"), "{error}");
}

/// A change of an array, and what is said of it.
type Change = (&'static str, Box<dyn Fn(&mut Vec<u8>)>, &'static str);

#[test]
fn arrays_that_do_not_agree_are_named() {
    let plain: Vec<Change> = vec![
        ("own_ids", Box::new(set_u32(3, 1)), "that no other entry has"),
        ("own_ids", Box::new(set_u32(24, 100)), "below the bound"),
        ("degrees", Box::new(set_u32(5, 1000)), "number of the row's edges"),
        ("block_owners", Box::new(set_u32(0, 2)), "the part itself first"),
        ("block_owners", Box::new(set_u32(1, 1)), "another part"),
        ("block_owners", Box::new(set_u32(3, 4)), "below the bound"),
        ("blocks.0.rows", Box::new(set_u32(0, 9999)), "below the bound"),
        ("blocks.0.indptr", Box::new(|bytes: &mut Vec<u8>| bytes[8] = 0), "listed rows have edges"),
        ("blocks.1.indices", Box::new(set_u32(0, 77)), "strictly ascending"),
        ("blocks.1.column_ids", Box::new(set_u32(0, 4_000_000_000)), "below the bound"),
        ("blocks.2.column_degrees", Box::new(set_u32(0, 100)), "less than the number of nodes"),
        ("send_readers", Box::new(set_u32(0, 1)), "another part"),
        ("boundary", Box::new(set_u32(0, 25)), "below the bound"),
        ("features", Box::new(set_u32(2, f32::NAN.to_bits())), "not a finite 32-bit number"),
        ("labels", Box::new(set_u32(0, 4)), "label 4"),
        ("roles", Box::new(|bytes: &mut Vec<u8>| bytes[0] = 4), "0 (none)"),
        ("train.own_ids", Box::new(set_u32(0, 1)), "role 1"),
        ("train.degrees", Box::new(set_u32(0, 99)), "number of the row's edges"),
    ];
    let rich: Vec<Change> = vec![
        ("features.indptr", Box::new(|bytes: &mut Vec<u8>| bytes[0] = 1), "offset 1"),
        ("features.indices", Box::new(set_u32(0, 3)), "index 3"),
        ("labels", Box::new(|bytes: &mut Vec<u8>| bytes[3] = 2), "0 or 1"),
        ("labelled", Box::new(|bytes: &mut Vec<u8>| bytes[3] = 2), "0 or 1"),
    ];
    for (kind, changes) in [(Kind::Plain, plain), (Kind::Rich, rich)] {
        for (name, change, said) in changes {
            let folder = Folder::new(kind, true);
            folder.change(name, change);
            let text = folder.refused(PART).to_string();
            assert!(text.contains(said), "{name}: {text}");
            let of_other = ["role 1"].contains(&said);
            assert!(text.contains(&format!("`{name}`")) || of_other, "{name}: {text}");
        }
    }
}

/// A place in an ascending list, and another of the candidates that would ascend there.
fn replacement(list: &[u32], candidates: impl Iterator<Item = u32>) -> (usize, u32) {
    let fits = |value: u32| {
        let at = list.binary_search(&value).err()?;
        (at < list.len()).then_some((at, value))
    };
    candidates.filter_map(fits).next().expect("a value that is not in the list")
}

#[test]
fn what_is_sent_is_what_is_read() {
    // Another boundary row than the one that reads from there.
    let folder = Folder::new(Kind::Plain, false);
    let plan = folder.read().unwrap().whole.graph.plan;
    let (at, row) = replacement(&plan.sends[0].rows, plan.boundary.iter().copied());
    folder.change("sends.0.rows", set_u32(at, row));
    let fault = folder.refused(PART);
    let FolderFault::Array { name, problem } = &fault else { panic!("{fault}") };
    assert_eq!(name, "sends.0.rows");
    let expected = ArrayFault::NotMirrored { reader: 0, owner: 0 };
    assert!(*problem == expected || matches!(problem, ArrayFault::Value { .. }), "{fault}");
    // A halo row taken for another: nothing that the part itself could see.
    let folder = Folder::new(Kind::Plain, false);
    let block = &folder.read().unwrap().whole.graph.blocks[1];
    let of_owner = (0..100).filter(|id| id % 4 == block.owner);
    let (at, id) = replacement(&block.column_ids, of_owner);
    folder.change("blocks.1.column_ids", set_u32(at, id));
    folder.read().unwrap();
    let error = PartitionFolder::open(&folder.dir()).unwrap().read_all().unwrap_err();
    assert!(matches!(error.fault, FolderFault::Mirror { owner: 0, reader: 1 }), "{error}");
}

/// Follows every index that later code follows.
fn follow(graph: &PartGraph) {
    for block in &graph.blocks {
        assert_eq!(block.column_degrees.len(), block.column_ids.len());
        assert_eq!(block.edges.n_rows(), block.rows.len());
        for (at, &row) in block.rows.iter().enumerate() {
            assert!((row as usize) < graph.n_local());
            for &column in block.edges.row(at) {
                assert!((column as usize) < block.column_ids.len());
            }
        }
    }
    for send in &graph.plan.sends {
        for (&row, &position) in send.rows.iter().zip(&send.positions) {
            assert_eq!(graph.plan.boundary[position as usize], row);
            assert!((row as usize) < graph.n_local());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_bytes_make_it_panic(
        of_manifest in any::<bool>(),
        at in any::<prop::sample::Index>(),
        new in prop::collection::vec(any::<u8>(), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let root = tempfile::tempdir().unwrap();
        let mut is_altered = false;
        for (number, (name, bytes)) in pristine(Kind::Rich, true).iter().enumerate() {
            let mut bytes = bytes.clone();
            if number == usize::from(!of_manifest) {
                let before = bytes.clone();
                let at = at.index(bytes.len());
                bytes.splice(at..(at + new.len()).min(before.len()), new.iter().copied());
                if let Some(cut) = cut {
                    bytes.truncate(cut.index(bytes.len()));
                }
                is_altered = bytes != before;
            }
            fs::write(root.path().join(name), bytes).unwrap();
        }
        let read = PartitionFolder::open(root.path()).and_then(|folder| folder.read_part(1));
        // Every alteration is seen.
        prop_assert_eq!(read.is_err(), is_altered);
    }

    #[test]
    fn what_passes_with_its_sums_right_can_be_used(
        at in any::<prop::sample::Index>(),
        word in prop_oneof![0_u32..4, 0_u32..100, any::<u32>()],
    ) {
        let root = tempfile::tempdir().unwrap();
        for (number, (name, bytes)) in pristine(Kind::Rich, true).iter().enumerate() {
            let mut bytes = bytes.clone();
            if number == 1 {
                let at = at.index(bytes.len() / 4 - 1) * 4;
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            fs::write(root.path().join(name), bytes).unwrap();
        }
        repair(root.path());
        if let Ok(part) = PartitionFolder::open(root.path()).and_then(|folder| folder.read_part(1)) {
            follow(&part.whole.graph);
            follow(&part.training.expect("an inductive part").graph);
        }
    }
}

#[test]
fn a_huge_header_asks_for_no_memory() {
    let folder = Folder::new(Kind::Plain, false);
    let manifest = Manifest::read(&folder.dir()).unwrap();
    let n_bytes = manifest.parts[1].bytes as usize;
    for (length, header) in [
        (u64::MAX, String::new()),
        (99_999_999, String::new()),
        (96, r#"{"own_ids":{"dtype":"U32","shape":[4611686018427387903],"data_offsets":[0,18446744073709551612]}}"#.to_owned()),
    ] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(n_bytes, b' ');
        fs::write(folder.path(PART), bytes).unwrap();
        repair(&folder.dir());
        assert!(matches!(folder.refused(PART), FolderFault::Header { .. }), "{length}");
    }
}
