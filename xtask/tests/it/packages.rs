//! What crates are published as: whole, small, and without what is not published.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, Package};

use crate::tree;

/// The largest file of all packages is the PTX of the codec's kernels.
const MAX_FILE_BYTES: u64 = 600_000;
/// Registries take more; nobody needs it.
const MAX_PACKAGE_BYTES: u64 = 2_000_000;

/// What every package holds.
const HELD: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// What a package may hold besides, directly or as a folder.
const MAY_HOLD: [&str; 11] = [
    ".cargo_vcs_info.json",
    ".clang-format",
    "Cargo.lock",
    "Cargo.toml.orig",
    "build.rs",
    "cuda",
    "examples",
    "ptx",
    "src",
    "testdata",
    "tests",
];

/// A dependency on another crate of the workspace.
struct Use {
    of: String,
    is_for_tests: bool,
    has_version: bool,
}

#[test]
fn published_crates_need_published_ones_alone() {
    let packages = tree::metadata().packages;
    let published: BTreeSet<_> =
        packages.iter().filter(|p| is_published(p)).map(|p| p.name.to_string()).collect();
    assert!(published.contains("sylvie") && !published.contains("xtask"), "{published:?}");
    let uses: BTreeMap<_, _> = packages
        .iter()
        .filter(|package| published.contains(package.name.as_str()))
        .map(|package| (package.name.to_string(), uses(package)))
        .collect();
    let mut findings = unpublishable(&uses, &published);
    findings.extend(circles(&uses));
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn every_way_to_be_unpublishable_is_found() {
    let of = |name: &str, is_for_tests, has_version| Use {
        of: name.to_owned(),
        is_for_tests,
        has_version,
    };
    let published: BTreeSet<_> = ["floor", "roof"].map(ToOwned::to_owned).into();
    let found = |uses_of_roof: Vec<Use>| {
        let uses = BTreeMap::from([("roof".to_owned(), uses_of_roof)]);
        unpublishable(&uses, &published)
    };
    assert!(found(vec![of("floor", false, true), of("suites", true, false)]).is_empty());
    assert_eq!(
        found(vec![of("suites", false, true)]),
        ["roof needs suites, which is not published"]
    );
    assert_eq!(found(vec![of("floor", false, false)]), ["roof needs floor without a version"]);
    assert_eq!(
        found(vec![of("suites", true, true)]),
        ["roof's tests name a version of suites, which is not published"]
    );
    let uses = BTreeMap::from([
        ("roof".to_owned(), vec![of("floor", false, true)]),
        ("floor".to_owned(), vec![of("roof", true, true)]),
    ]);
    let found = circles(&uses);
    assert_eq!(found.as_deref(), Some("neither of floor, roof can be published first"));
}

#[test]
fn packages_hold_what_they_need_and_little_else() {
    let mut findings = Vec::new();
    for package in tree::metadata().packages.iter().filter(|package| is_published(package)) {
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
        let files = files_of(package);
        findings.extend(
            findings_in(folder.as_std_path(), &files)
                .into_iter()
                .map(|finding| format!("{}: {finding}", package.name)),
        );
    }
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Packed and not built: that dependencies have versions, and that every file is there.
#[test]
fn all_published_crates_can_be_packed() {
    let (places, mut command) = (tempfile::tempdir().unwrap(), cargo());
    command.args([
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--offline",
        "--quiet",
    ]);
    command.arg("--target-dir").arg(places.path());
    let packages = tree::metadata().packages;
    for package in packages.iter().filter(|package| !is_published(package)) {
        command.args(["--exclude", package.name.as_str()]);
    }
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packed = fs::read_dir(places.path().join("package")).unwrap();
    let names = packed.map(|entry| entry.unwrap().file_name().display().to_string());
    let n_packed = names.filter(|name| name.ends_with(".crate")).count();
    assert_eq!(n_packed, packages.iter().filter(|package| is_published(package)).count());
}

#[test]
fn what_a_package_lacks_or_should_not_hold_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("cuda")).unwrap();
    fs::write(folder.path().join("cuda/kernel.cu"), "").unwrap();
    let whole: Vec<_> =
        HELD.iter().copied().chain(["cuda/kernel.cu", "src/lib.rs"]).map(str::to_owned).collect();
    for file in &whole {
        fs::create_dir_all(folder.path().join(file).parent().unwrap()).unwrap();
        fs::write(folder.path().join(file), "").unwrap();
    }
    assert!(findings_in(folder.path(), &whole).is_empty());
    for lacking in ["LICENSE-MIT", "cuda/kernel.cu", "src/lib.rs"] {
        let files: Vec<_> = whole.iter().filter(|file| *file != lacking).cloned().collect();
        assert_eq!(findings_in(folder.path(), &files).len(), 1, "{lacking}");
    }
    let more = [whole.clone(), vec!["runs/summary.json".to_owned()]].concat();
    assert_eq!(findings_in(folder.path(), &more), ["runs/summary.json has no place in it"]);
    let large = fs::File::create(folder.path().join("src/lib.rs")).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    assert_eq!(findings_in(folder.path(), &whole), ["src/lib.rs has 600001 bytes"]);
}

pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.is_none()
}

fn uses(package: &Package) -> Vec<Use> {
    let near = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    let of = |dependency: &cargo_metadata::Dependency| Use {
        of: dependency.name.clone(),
        is_for_tests: dependency.kind == DependencyKind::Development,
        has_version: dependency.req.to_string() != "*",
    };
    near.map(of).collect()
}

/// What keeps packages from being built by whoever has but the registry.
fn unpublishable(uses: &BTreeMap<String, Vec<Use>>, published: &BTreeSet<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, uses) in uses {
        for Use { of, is_for_tests, has_version } in uses {
            let is_there = published.contains(of);
            match (is_for_tests, is_there, has_version) {
                (false, false, _) => {
                    findings.push(format!("{name} needs {of}, which is not published"));
                }
                (false, true, false) => {
                    findings.push(format!("{name} needs {of} without a version"));
                }
                // Without a version it is left out of the package.
                (true, false, true) => findings
                    .push(format!("{name}'s tests name a version of {of}, which is not published")),
                _ => {}
            }
        }
    }
    findings
}

/// Crates that need each other, tests included: neither can be in a registry before the other.
fn circles(uses: &BTreeMap<String, Vec<Use>>) -> Option<String> {
    let mut left: BTreeSet<&String> = uses.keys().collect();
    loop {
        let is_ready = |name: &&String| {
            let mut needed = uses[*name].iter().filter(|used| used.has_version);
            needed.all(|used| !left.contains(&used.of))
        };
        let ready: Vec<_> = left.iter().copied().filter(is_ready).collect();
        if ready.is_empty() {
            break;
        }
        ready.iter().for_each(|name| {
            left.remove(name);
        });
    }
    let names: Vec<_> = left.into_iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| format!("neither of {} can be published first", names.join(", ")))
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree::root());
    command
}

/// The files of a package, as cargo lists them.
fn files_of(package: &Package) -> Vec<String> {
    let mut command = cargo();
    command.args(["package", "--list", "--allow-dirty", "--package"]);
    let output = command.arg(package.name.as_str()).output().expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", package.name);
    let list = String::from_utf8(output.stdout).expect("names in UTF-8");
    list.lines().map(|line| line.replace('\\', "/")).collect()
}

fn findings_in(folder: &Path, files: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let holds = |name: &str| files.iter().any(|file| file == name);
    let lacking = HELD.iter().filter(|name| !holds(name));
    findings.extend(lacking.map(|name| format!("{name} is not in it")));
    if !holds("src/lib.rs") && !holds("src/main.rs") {
        findings.push("no source is in it".to_owned());
    }
    for data in ["cuda", "ptx", "testdata"] {
        let entries = fs::read_dir(folder.join(data)).into_iter().flatten();
        let names = entries.map(|entry| entry.expect("a readable folder").file_name());
        let paths = names.map(|name| format!("{data}/{}", name.display()));
        findings
            .extend(paths.filter(|path| !holds(path)).map(|path| format!("{path} is not in it")));
    }
    let mut n_bytes = 0;
    for file in files {
        let top = file.split('/').next().unwrap_or_default();
        if !HELD.contains(&top) && !MAY_HOLD.contains(&top) {
            findings.push(format!("{file} has no place in it"));
        }
        // What cargo writes itself does not lie in the folder.
        let length = fs::metadata(folder.join(file)).map_or(0, |metadata| metadata.len());
        n_bytes += length;
        if length > MAX_FILE_BYTES {
            findings.push(format!("{file} has {length} bytes"));
        }
    }
    if n_bytes > MAX_PACKAGE_BYTES {
        findings.push(format!("it has {n_bytes} bytes"));
    }
    findings
}
