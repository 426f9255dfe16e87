//! Where the repository's files lie.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand};

/// The folders that hold what is written here. Some of them come with later work.
const FOLDERS: [&str; 9] =
    [".cargo", ".ci", "benches", "crates", "docs", "fuzz", "kernels", "testdata", "xtask"];
/// What tools leave in those folders.
const LEFT_BY_TOOLS: [&str; 3] = ["target", "artifacts", "corpus"];

/// The folder of the root manifest.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}

/// What cargo reads from the manifests of the workspace. No dependency is resolved, so that the
/// registry is not asked for anything.
pub(crate) fn metadata() -> Metadata {
    let manifest = root().join("Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata")
}

/// The folders directly in `crates/` that hold a manifest.
pub(crate) fn crate_folders() -> Vec<PathBuf> {
    let mut folders = entries(&root().join("crates"));
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    assert!(folders.len() > 1, "crates/ holds {} crates", folders.len());
    folders
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The repository's files with one of these endings, each relative to the root, with its text.
pub(crate) fn files_ending_in(endings: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut paths = entries(&root);
    paths.retain(|path| path.is_file());
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        if folder.is_dir() {
            collect_files(&folder, &mut paths);
        }
    }
    let name =
        |path: &Path| path.strip_prefix(&root).expect("below the root").display().to_string();
    paths
        .iter()
        .map(|path| (name(path), path))
        .filter(|(name, _)| endings.iter().any(|ending| name.ends_with(ending)))
        .map(|(name, path)| (name, read(path)))
        .collect()
}

fn collect_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if !path.is_dir() {
            paths.push(path);
        } else if !LEFT_BY_TOOLS.iter().any(|name| path.ends_with(name)) {
            collect_files(&path, paths);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = read.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}
