//! A folder appears whole or not at all, and takes the place of nothing but a partition.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sylvie_partition::{About, Existing, FolderFault, NewFolder, PartitionFolder};

use crate::folder::{about, write};
use crate::graphs::{Kind, community_case};

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn replace(dir: &Path, seed: u64) -> u64 {
    let case = community_case();
    let folder = NewFolder::create(dir, Existing::Replace).unwrap();
    folder
        .write(&case.dataset(Kind::Plain), &case.assignment, &About { seed, ..about(false) })
        .unwrap();
    PartitionFolder::open(dir).unwrap().manifest().seed
}

#[track_caller]
fn refused(dir: &Path, existing: Existing) -> FolderFault {
    NewFolder::create(dir, existing).unwrap_err().fault
}

fn places() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b/parts");
    (root, dir)
}

#[test]
fn what_was_made_in_vain_is_removed() {
    let (root, dir) = places();
    let folder = NewFolder::create(&dir, Existing::Keep).unwrap();
    assert_eq!(names(&root.path().join("a/b")), ["parts.new"]);
    drop(folder);
    assert!(names(root.path()).is_empty());
    fs::create_dir_all(&dir).unwrap();
    drop(NewFolder::create(&dir, Existing::Keep).unwrap());
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);
    // An empty folder is filled.
    write(&dir, &community_case(), Kind::Plain, &about(false));
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);
    assert_eq!(names(&dir).len(), 5);
}

#[test]
fn only_partitions_are_replaced_and_only_when_told() {
    let (root, dir) = places();
    write(&dir, &community_case(), Kind::Plain, &about(false));
    assert!(matches!(refused(&dir, Existing::Keep), FolderFault::Exists));
    assert_eq!(replace(&dir, 9), 9);
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);

    fs::write(dir.join("note"), "mine").unwrap();
    let fault = refused(&dir, Existing::Replace);
    assert!(matches!(&fault, FolderFault::NotReplaceable { found: name } if name == "note"));
    fs::remove_file(dir.join("note")).unwrap();
    fs::remove_file(dir.join("manifest.json")).unwrap();
    let fault = refused(&dir, Existing::Replace);
    assert!(matches!(fault, FolderFault::NoManifest), "{fault}");
    let file = root.path().join("file");
    fs::write(&file, "mine").unwrap();
    for existing in [Existing::Keep, Existing::Replace] {
        assert!(matches!(refused(&file, existing), FolderFault::NotAFolder));
        assert!(matches!(refused(Path::new("/"), existing), FolderFault::NoName));
    }
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);
}

#[test]
fn the_old_one_is_whole_until_the_end() {
    let (root, dir) = places();
    write(&dir, &community_case(), Kind::Plain, &about(false));
    let folder = NewFolder::create(&dir, Existing::Replace).unwrap();
    PartitionFolder::open(&dir).unwrap().read_all().unwrap();
    assert!(matches!(refused(&dir, Existing::Replace), FolderFault::Busy));
    drop(folder);
    PartitionFolder::open(&dir).unwrap().read_all().unwrap();
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);
}

#[test]
fn what_a_killed_write_left_is_in_nobodys_way() {
    let (root, dir) = places();
    let beside = |ending: &str| root.path().join(format!("a/b/parts{ending}"));
    // Killed while it wrote.
    fs::create_dir_all(beside(".new")).unwrap();
    fs::write(beside(".new").join("part-0000.safetensors"), "half").unwrap();
    File::create(beside(".new").join("writing.lock")).unwrap();
    write(&dir, &community_case(), Kind::Plain, &about(false));
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);
    // Killed between the two renames: the old one comes back, and is kept unless told otherwise.
    fs::rename(&dir, beside(".old")).unwrap();
    assert!(matches!(refused(&dir, Existing::Keep), FolderFault::Exists));
    PartitionFolder::open(&dir).unwrap().read_all().unwrap();
    // Killed before the old one was removed.
    fs::create_dir(beside(".old")).unwrap();
    fs::write(beside(".old").join("part-0000.safetensors"), "old").unwrap();
    assert_eq!(replace(&dir, 11), 11);
    assert_eq!(names(&root.path().join("a/b")), ["parts"]);
    // What is nobody's is not removed.
    fs::create_dir(beside(".new")).unwrap();
    fs::write(beside(".new").join("note"), "mine").unwrap();
    assert!(matches!(refused(&dir, Existing::Replace), FolderFault::NotReplaceable { .. }));
    assert_eq!(names(&beside(".new")), ["note"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed() {
    let (root, dir) = places();
    fs::create_dir_all(&dir).unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    write(&link, &community_case(), Kind::Plain, &about(false));
    assert_eq!(replace(&link, 12), 12);
    assert!(link.is_symlink());
    PartitionFolder::open(&dir).unwrap().read_all().unwrap();
    fs::rename(&dir, root.path().join("moved")).unwrap();
    assert!(matches!(refused(&link, Existing::Keep), FolderFault::DanglingLink));
}
