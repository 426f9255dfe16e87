//! What a run leaves behind.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::program::{GRAPH, MULTI, computed, epochs, fail, objects, run, succeed, summary, train};

const EPOCH_KEYS: [&str; 11] = [
    "epoch",
    "loss",
    "epoch_ms",
    "compute_ms",
    "encode_ms",
    "wait_ms",
    "decode_ms",
    "reduce_ms",
    "payload_bytes",
    "metadata_bytes",
    "messages",
];

const SUMMARY_KEYS: [&str; 13] = [
    "best_val",
    "test_at_best_val",
    "final_test",
    "epochs",
    "median_epoch_ms",
    "payload_bytes_per_epoch",
    "metadata_bytes_per_epoch",
    "fp32_bytes_per_epoch",
    "eval_bytes",
    "peak_rss_mb",
    "parts",
    "cut_edges",
    "halo_rows",
];

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn the_folder_holds_four_files_with_their_keys() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("runs/first");
    let summary = train(&folder, &format!("--data {GRAPH} --epochs 5"));
    let mut names: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["metrics.jsonl", "model.safetensors", "run.toml", "summary.json"]);

    let epochs = epochs(&folder);
    assert_eq!(epochs.len(), 5);
    for (number, epoch) in epochs.iter().enumerate() {
        assert_eq!(epoch["epoch"], number);
        let mut expected = BTreeSet::from(EPOCH_KEYS);
        // Every second epoch, and the last.
        if [1, 3, 4].contains(&number) {
            expected.extend(["train", "val", "test"]);
        }
        assert_eq!(keys(epoch), expected, "epoch {number}");
    }

    assert!(keys(&summary).is_superset(&BTreeSet::from(SUMMARY_KEYS)), "{summary}");
    assert_eq!((&summary["epochs"], &summary["parts"]), (&Value::from(5), &Value::from(4)));
    let evaluated = [1, 3, 4].map(|epoch: usize| epochs[epoch]["val"].as_f64().unwrap());
    let best = evaluated.iter().copied().fold(0.0, f64::max);
    assert_eq!(summary["best_val"], best);
    assert_eq!(summary["final_test"], epochs[4]["test"]);
    let best_epoch = summary["best_epoch"].as_u64().unwrap() as usize;
    assert_eq!(summary["test_at_best_val"], epochs[best_epoch]["test"]);
    assert_eq!(summary["loss"], epochs[4]["loss"]);
}

#[test]
fn json_is_printed_a_line_an_epoch_and_then_the_summary() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let printed = succeed(&format!(
        "train --data {GRAPH} --hidden 16 --epochs 3 --json --out {}",
        out.display()
    ));
    let objects = objects(&printed);
    assert_eq!(objects[..3], epochs(&out));
    assert_eq!(objects[3..], [summary(&out)]);
}

#[test]
fn without_a_folder_only_lines_are_left() {
    let words = format!("train --data {GRAPH} --hidden 16 --epochs 6 --bits 1");
    let printed = succeed(&words);
    for said in
        ["epoch 4: loss ", "epoch 5: loss ", "times fewer bytes than fp32 (", "validation 0."]
    {
        assert!(printed.contains(said), "{said}:\n{printed}");
    }
    assert!(!printed.contains("epoch 3: "), "{printed}");
    assert_eq!(succeed(&format!("{words} --quiet")), "");
    let one_part = succeed(&format!("{words} --parts 1"));
    assert!(one_part.contains("nothing was exchanged"), "{one_part}");
}

#[test]
fn a_run_is_overwritten_only_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train(&out, &format!("--data {GRAPH}"));
    let before = computed(&out);
    let again =
        format!("train --quiet --data {GRAPH} --hidden 16 --epochs 2 --out {}", out.display());
    let (_, line) = fail(&again);
    assert!(line.contains("--overwrite"), "{line}");
    // What cannot be read destroys nothing either.
    fail(&format!("train --quiet --data nowhere --overwrite --out {}", out.display()));
    assert_eq!(computed(&out), before);

    succeed(&format!("{again} --overwrite"));
    assert_eq!(epochs(&out).len(), 2);
    assert_eq!(summary(&out)["epochs"], 2);
}

#[test]
fn a_folder_made_in_vain_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    fail(&format!("train --data nowhere --out {}", out.display()));
    assert!(!out.exists());
}

#[test]
fn patience_ends_a_run_early() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    // Weights hardly move, so that no evaluation is better than the first.
    let summary = train(&out, &format!("--data {GRAPH} --epochs 40 --lr 1e-12 --patience 3"));
    assert_eq!((&summary["epochs"], &summary["best_epoch"]), (&Value::from(8), &Value::from(1)));
    assert_eq!(epochs(&out).len(), 8);
}

#[test]
fn the_metric_suits_the_labels() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (words, metric)) in [
        (format!("--data {GRAPH}"), "accuracy"),
        (format!("--data {MULTI}"), "micro-f1"),
        (format!("--data {MULTI} --metric roc-auc"), "roc-auc"),
        ("--data synthetic:nodes=120,classes=2 --metric roc-auc".to_owned(), "roc-auc"),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(number.to_string());
        let summary = train(&out, &words);
        assert_eq!(summary["metric"], metric, "{words}");
        assert!(summary["best_val"].as_f64().is_some_and(|value| (0.0..=1.0).contains(&value)));
        let settings = fs::read_to_string(out.join("run.toml")).unwrap();
        assert!(settings.contains(&format!("metric = \"{metric}\"")), "{settings}");
    }
}

#[test]
fn nothing_is_left_where_training_fails() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    // A step this long carries every weight out of range.
    let output = run(&format!(
        "train --data {GRAPH} --hidden 16 --epochs 9 --norm none --lr 1e38 --out {}",
        out.display()
    ));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{errors}");
    assert!(errors.contains("epoch "), "{errors}");
    assert!(out.join("run.toml").exists() && !out.join("summary.json").exists());
}
