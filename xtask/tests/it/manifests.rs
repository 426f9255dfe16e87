//! What every crate's manifest says.

use toml::{Table, Value};

use crate::tree;

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

#[test]
fn dependencies_have_their_versions_in_the_root_manifest_alone() {
    for (path, manifest) in member_manifests() {
        let own = not_from_the_workspace(&manifest);
        assert!(own.is_empty(), "{path}: not `workspace = true`: {}", own.join(", "));
    }
}

#[test]
fn every_way_to_name_a_version_is_seen() {
    let manifest = r#"
        [dependencies]
        shared.workspace = true
        plain = "1"
        table = { version = "1" }
        both = { workspace = true, git = "https://example.org" }
        [dev-dependencies]
        near = { path = "../near" }
        [target.'cfg(unix)'.build-dependencies]
        there = "2"
    "#;
    let mut own = not_from_the_workspace(&manifest.parse().unwrap());
    own.sort();
    assert_eq!(own, ["both", "near", "plain", "table", "there"]);
}

#[test]
fn lints_are_those_of_the_workspace() {
    for (path, manifest) in member_manifests() {
        let inherited = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(inherited, Some(&Value::Boolean(true)), "{path}: [lints] workspace = true");
    }
}

#[test]
fn packages_say_what_they_are_and_share_the_rest() {
    for (path, manifest) in member_manifests() {
        let package = manifest["package"].as_table().expect("[package]");
        let description = package.get("description").and_then(Value::as_str).unwrap_or_default();
        assert!(!description.trim().is_empty(), "{path}: no description");
        for key in ["version", "edition", "rust-version", "license", "repository"] {
            let inherited = package.get(key).and_then(|value| value.get("workspace"));
            assert_eq!(inherited, Some(&Value::Boolean(true)), "{path}: {key}.workspace = true");
        }
    }
}

/// The names of dependencies that say more than that they are the workspace's, and with which
/// features.
fn not_from_the_workspace(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let of_targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let tables = std::iter::once(manifest).chain(of_targets);
    let lists = tables.flat_map(|table| DEPENDENCIES.map(|name| table.get(name)));
    let dependencies = lists.flatten().filter_map(Value::as_table).flatten();
    dependencies.filter(|(_, value)| !is_shared(value)).map(|(name, _)| name.clone()).collect()
}

fn is_shared(dependency: &Value) -> bool {
    let from_workspace = dependency.get("workspace") == Some(&Value::Boolean(true));
    let own = ["version", "git", "path", "registry"];
    from_workspace && own.iter().all(|key| dependency.get(key).is_none())
}

fn member_manifests() -> Vec<(String, Table)> {
    let packages = tree::metadata().packages;
    assert!(packages.len() > 1, "the workspace has {} members", packages.len());
    let read = |package: &cargo_metadata::Package| {
        let path = &package.manifest_path;
        let text = tree::read(path.as_std_path());
        (path.to_string(), text.parse().unwrap_or_else(|error| panic!("{path}: {error}")))
    };
    packages.iter().map(read).collect()
}
