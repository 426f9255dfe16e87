//! Which crate may use which: the list in the root manifest against what the manifests say.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::DependencyKind;

use crate::tree;

/// What each crate uses, or may use, of the workspace.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn each_crate_uses_exactly_the_layers_listed_for_it() {
    let differences = differences(&listed(), &used());
    assert!(differences.is_empty(), "[workspace.metadata.layers]:\n{}", differences.join("\n"));
}

#[test]
fn every_kind_of_difference_is_seen() {
    let uses = |rows: &[(&str, &[&str])]| -> Uses {
        let row = |(name, used): &(&str, &[&str])| {
            (name.to_string(), used.iter().map(ToString::to_string).collect())
        };
        rows.iter().map(row).collect()
    };
    let used = uses(&[("floor", &[]), ("model", &["floor"])]);
    assert!(differences(&used, &used).is_empty());
    let cases: [(Uses, &str); 4] = [
        (uses(&[("model", &["floor"])]), "floor is not listed"),
        (uses(&[("floor", &[]), ("model", &[])]), "model uses floor, which is not listed for it"),
        (
            uses(&[("floor", &["model"]), ("model", &["floor"])]),
            "floor is listed with model, which it does not use",
        ),
        (
            uses(&[("floor", &[]), ("model", &["floor"]), ("roof", &[])]),
            "roof is listed and does not exist",
        ),
    ];
    for (listed, expected) in cases {
        assert_eq!(differences(&listed, &used), [expected]);
    }
}

fn differences(listed: &Uses, used: &Uses) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, uses) in used {
        let Some(may_use) = listed.get(name) else {
            differences.push(format!("{name} is not listed"));
            continue;
        };
        for other in uses.difference(may_use) {
            differences.push(format!("{name} uses {other}, which is not listed for it"));
        }
        for other in may_use.difference(uses) {
            differences.push(format!("{name} is listed with {other}, which it does not use"));
        }
    }
    for name in listed.keys().filter(|name| !used.contains_key(*name)) {
        differences.push(format!("{name} is listed and does not exist"));
    }
    differences
}

/// `[workspace.metadata.layers]` of the root manifest.
fn listed() -> Uses {
    let metadata = tree::metadata().workspace_metadata;
    let layers = metadata["layers"].as_object().expect("[workspace.metadata.layers]");
    let names = |value: &serde_json::Value| {
        let names = value.as_array().expect("a list of crates");
        names.iter().map(|name| name.as_str().expect("a crate's name").to_string()).collect()
    };
    layers.iter().map(|(name, uses)| (name.clone(), names(uses))).collect()
}

/// The dependencies of each crate that lie in the workspace, dev-dependencies apart: tests may
/// reach anywhere.
fn used() -> Uses {
    let packages = tree::metadata().packages;
    let uses = |package: &cargo_metadata::Package| {
        let built = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        built.filter(|d| d.path.is_some()).map(|d| d.name.clone()).collect()
    };
    packages.iter().map(|package| (package.name.to_string(), uses(package))).collect()
}
