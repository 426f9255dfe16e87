//! `convert`, and splits that are drawn.

use serde_json::Value;

use crate::program::{GRAPH, fail, objects, succeed};

fn info(words: &str) -> Value {
    objects(&succeed(&format!("info {words} --json"))).remove(0)
}

#[test]
fn what_is_converted_is_the_same_graph() {
    let folder = tempfile::tempdir().unwrap();
    let given = info(&format!("--data {GRAPH}"));
    for format in ["arrays", "ogb", "graphsaint", "reddit"] {
        let out = folder.path().join(format).display().to_string();
        let said = succeed(&format!("convert --data {GRAPH} --to {format} --out {out}"));
        assert!(said.contains(&format!("as {format} in {out}")), "{said}");
        let copy = info(&format!("--data {out}"));
        for key in
            ["nodes", "edges", "features_nonzero", "classes", "train", "val", "test", "homophily"]
        {
            assert_eq!(copy[key], given[key], "{format}: {key}");
        }
        let (_, again) = fail(&format!("convert --data {GRAPH} --to {format} --out {out}"));
        assert!(again.contains("nothing is written over it"), "{again}");
    }
    let (_, refused) = fail("convert --data synthetic --to planetoid --out nowhere");
    assert!(refused.contains("only read; allowed are arrays|ogb|graphsaint|reddit"), "{refused}");
}

#[test]
fn splits_are_drawn_by_rule_and_seed() {
    let sizes = |words: &str| {
        let info = info(&format!("--data {GRAPH} {words}"));
        ["train", "val", "test"].map(|set| info[set].as_u64().unwrap())
    };
    assert_eq!(sizes("--split random:0.6,0.2"), [144, 48, 48]);
    assert_eq!(sizes("--split given"), sizes(""));
    let per_class = sizes("--split per-class:2,3");
    assert_eq!(per_class[0] * 3, per_class[1] * 2);
    let (_, refused) = fail(&format!("info --data {GRAPH} --split random:0.6,0.6"));
    assert!(refused.contains("sum to 1.2"), "{refused}");
}
