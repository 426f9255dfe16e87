//! `info`, `partition` and help.

use serde_json::Value;

use crate::files;
use crate::program::{GRAPH, objects, run, succeed};

fn json(words: &str) -> Value {
    let mut objects = objects(&succeed(&format!("{words} --json")));
    assert_eq!(objects.len(), 1, "{words}");
    objects.remove(0)
}

#[test]
fn info_describes_a_graph() {
    let folder = tempfile::tempdir().unwrap();
    files::ring(folder.path());
    let words = format!("info --data {}", folder.path().display());
    let info = json(&words);
    for (key, value) in [
        ("nodes", 12),
        ("edges", 24),
        ("features", 2),
        ("features_nonzero", 23),
        ("classes", 2),
        ("unlabelled", 0),
        ("train", 6),
        ("val", 3),
        ("test", 3),
        ("degree_min", 2),
        ("degree_max", 2),
        ("isolated", 0),
        ("edges_given", 12),
        ("inverses_added", 12),
        ("loops_removed", 0),
    ] {
        assert_eq!(info[key], value, "{key} in {info}");
    }
    assert_eq!(info["homophily"], 0.0);
    assert_eq!(json(&format!("{words} --directed"))["edges"], 12);

    let printed = succeed(&words);
    for said in ["nodes       12", "24 directed", "6 training", "mean 2.00", "homophily   0.0000"] {
        assert!(printed.contains(said), "{said}:\n{printed}");
    }
}

#[test]
fn partition_shows_a_row_a_part_and_totals() {
    let words = format!("partition --data {GRAPH} --parts 3");
    let quality = json(&words);
    let parts = quality["per_part"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    let sum = |key: &str| parts.iter().map(|part| part[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("nodes"), 240);
    assert_eq!(sum("train"), 120);
    assert_eq!(quality["halo_rows"], sum("halo_rows"));
    assert!(quality["node_balance"].as_f64() < Some(1.2), "{quality}");

    let printed = succeed(&words);
    assert_eq!(printed.lines().count(), 2 + 3 + 3, "{printed}");
    let random = json(&format!("{words} --partitioner random"));
    assert!(random["cut_edges"].as_u64() > quality["cut_edges"].as_u64());
    assert_eq!(json(&format!("{words} --objective cut"))["objective"], "cut");
    assert_eq!(json(&format!("partition --data {GRAPH} --parts 1"))["cut_edges"], 0);
}

#[test]
fn help_is_given_with_defaults_and_examples() {
    for command in ["info", "partition", "train", "evaluate", "predict", "report"] {
        let help = succeed(&format!("{command} --help"));
        assert!(help.contains(&format!("sylvie {command} --")), "{help}");
        assert!(help.contains("Example"), "{help}");
    }
    let help = succeed("train --help");
    assert!(help.contains("[default: 128]") && help.contains("--codec"), "{help}");
    assert!(succeed("--version").starts_with("sylvie "));
    let bare = run("train --no-such-flag");
    assert_eq!(bare.status.code(), Some(2));
}
