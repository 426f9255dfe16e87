//! What a run leaves behind.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::program::{GRAPH, MULTI, computed, epochs, fail, objects, run, succeed, summary, train};

const EPOCH_KEYS: [&str; 8] = [
    "epoch",
    "loss",
    "epoch_ms",
    "ranks",
    "payload_bytes",
    "metadata_bytes",
    "messages",
    "reduce_bytes",
];

const TIME_KEYS: [&str; 7] =
    ["compute_ms", "blocked_ms", "reduce_ms", "encode_ms", "decode_ms", "network_ms", "hidden_ms"];

const SUMMARY_KEYS: [&str; 14] = [
    "best_val",
    "test_at_best_val",
    "final_test",
    "epochs",
    "median_epoch_ms",
    "hidden_share",
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
        expected.extend(TIME_KEYS);
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

/// Whether two sums of the same numbers are equal but for rounding.
fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn times_are_told_for_each_rank_and_in_the_mean() {
    let folder = tempfile::tempdir().unwrap();
    for preset in ["sylvie-s", "sylvie-a"] {
        let out = folder.path().join(preset);
        let summary = train(&out, &format!("--data {GRAPH} --parts 3 --preset {preset}"));
        let epochs = epochs(&out);
        let number = |object: &Value, key: &str| object[key].as_f64().expect("a number");
        for epoch in &epochs {
            let ranks = epoch["ranks"].as_array().unwrap();
            assert_eq!(ranks.len(), 3);
            for rank in ranks {
                assert_eq!(keys(rank), BTreeSet::from(TIME_KEYS));
                let of_exchange = ["encode_ms", "decode_ms", "network_ms"].map(|k| number(rank, k));
                let of_exchange: f64 = of_exchange.iter().sum();
                assert!(number(rank, "hidden_ms") <= of_exchange * (1.0 + 1e-9), "{rank}");
            }
            for key in TIME_KEYS {
                let mean = ranks.iter().map(|rank| number(rank, key)).sum::<f64>() / 3.0;
                assert!(is_same(number(epoch, key), mean), "{key} in {epoch}");
            }
            let parts = ["compute_ms", "blocked_ms", "reduce_ms"].map(|key| number(epoch, key));
            assert!(is_same(parts.iter().sum(), number(epoch, "epoch_ms")), "{epoch}");
        }
        for key in TIME_KEYS.into_iter().chain(["epoch_ms"]) {
            let sum: f64 = epochs.iter().map(|epoch| number(epoch, key)).sum();
            let mean = sum / epochs.len() as f64;
            assert!(is_same(number(&summary, &format!("mean_{key}")), mean), "{key}");
        }
        assert!((0.0..=1.0).contains(&number(&summary, "hidden_share")), "{summary}");
    }
    let alone = train(&folder.path().join("alone"), &format!("--data {GRAPH} --parts 1"));
    assert_eq!(alone["hidden_share"], Value::Null);
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
    for said in [
        "epoch 4: loss ",
        "epoch 5: loss ",
        "times fewer bytes than fp32 (",
        "validation 0.",
        " computing, ",
        " waiting for rows of other parts, ",
        " % hidden behind computing",
    ] {
        assert!(printed.contains(said), "{said}:\n{printed}");
    }
    assert!(!printed.contains("epoch 3: "), "{printed}");
    assert_eq!(succeed(&format!("{words} --quiet")), "");
    let one_part = succeed(&format!("{words} --parts 1"));
    assert!(one_part.contains("nothing was exchanged"), "{one_part}");
    assert!(one_part.contains(" computing\n") && !one_part.contains("beside it"), "{one_part}");
    assert!(!one_part.contains("other parts"), "{one_part}");
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

/// What cannot be trained: a step this long carries every weight out of range.
const FAILS: &str = "--hidden 16 --epochs 9 --norm none --lr 1e38";

#[test]
fn a_run_that_fails_leaves_the_old_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train(&out, &format!("--data {GRAPH}"));
    let names = ["metrics.jsonl", "model.safetensors", "run.toml", "summary.json"];
    let bytes = || names.map(|name| fs::read(out.join(name)).unwrap());
    let before = bytes();
    let words = format!("train --data {GRAPH} --out {} --overwrite", out.display());
    let output = run(&format!("{words} {FAILS}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(bytes(), before);
    succeed(&format!("evaluate --run {}", out.display()));
    // What the failed run did is to be seen, and is said where.
    let aside = out.join(".new");
    assert!(aside.join("run.toml").exists() && aside.join("metrics.jsonl").exists());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains(&aside.display().to_string()), "{printed}");

    succeed(&format!("{words} --hidden 16 --epochs 3"));
    let mut found: Vec<_> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, names);
    assert_eq!(epochs(&out).len(), 3);
    succeed(&format!("evaluate --run {}", out.display()));
}

/// At every moment at which it may be.
#[test]
fn a_run_that_is_killed_leaves_the_old_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train(&out, &format!("--data {GRAPH}"));
    let before = computed(&out);
    for n_epochs_seen in [0, 1, 3] {
        let words = format!(
            "train --quiet --data {GRAPH} --hidden 16 --epochs 1000000 --out {} --overwrite",
            out.display()
        );
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sylvie"))
            .args(words.split(' '))
            .spawn()
            .unwrap();
        let metrics = out.join(".new/metrics.jsonl");
        while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < n_epochs_seen {
            assert!(child.try_wait().unwrap().is_none(), "the run goes on");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(computed(&out), before);
        succeed(&format!("evaluate --run {}", out.display()));
    }
}

#[test]
fn what_is_no_run_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("summary.json"), "mine").unwrap();
    let (_, line) =
        fail(&format!("train --data {GRAPH} --overwrite --out {}", folder.path().display()));
    assert!(line.contains("run.toml"), "{line}");
    assert_eq!(fs::read(folder.path().join("summary.json")).unwrap(), b"mine");
}

#[test]
fn two_runs_do_not_share_a_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words =
        format!("train --quiet --data {GRAPH} --hidden 16 --epochs 3 --out {}", out.display());
    let start = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sylvie"));
        let command = command.args(words.split(' ')).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    let (done, refused): (Vec<_>, Vec<_>) = outputs.partition(|output| output.status.success());
    assert_eq!((done.len(), refused.len()), (1, 3));
    for output in refused {
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.starts_with("error: ") && line.lines().count() == 1, "{line}");
    }
    assert_eq!(epochs(&out).len(), 3);
}

#[test]
fn a_score_that_is_not_defined_is_warned_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let ring = folder.path().join("ring");
    crate::files::ring(&ring);
    // Of one class.
    crate::files::array(&ring, "val.npy", &[2], &[6_i64, 8]);
    let words = format!(
        "--data {} --metric roc-auc --parts 2 --hidden 8 --epochs 6 --eval-every 2",
        ring.display()
    );
    let out = folder.path().join("run");
    let output = run(&format!("train {words} --out {}", out.display()));
    assert!(output.status.success());
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.starts_with("warning: ") && line.lines().count() == 1, "{line}");
    assert!(line.contains("roc-auc is not defined on the validation set"), "{line}");
    let evaluated = run(&format!("evaluate --run {}", out.display()));
    let line = String::from_utf8(evaluated.stderr).unwrap();
    assert!(line.contains("validation set") && line.lines().count() == 1, "{line}");
    assert_eq!(succeed(&format!("train {words} --quiet")), "");
}

#[test]
fn a_folder_made_in_vain_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    for out in ["run", "a/b/c"] {
        let out = folder.path().join(out);
        fail(&format!("train --data nowhere --out {}", out.display()));
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 0);
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

/// Files of at most 4096 bytes stand for a disk that is full: a write beyond is cut, and the next one fails.
#[cfg(unix)]
#[test]
fn a_run_that_finds_no_room_keeps_its_epochs_and_says_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let train = |out: &std::path::Path, words: &str| {
        let program = env!("CARGO_BIN_EXE_sylvie");
        let script = format!(
            "trap '' XFSZ; ulimit -f 8; exec '{program}' train --quiet --data {GRAPH} --parts 2 --eval-every 50 {words} \
             --out '{}'",
            out.display()
        );
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        said
    };
    let out = folder.path().join("long");
    let said = train(&out, "--hidden 8 --epochs 50");
    let n_epochs = epochs(&out).len();
    assert!((1..50).contains(&n_epochs), "whole lines alone: {n_epochs}");
    for word in [
        "metrics.jsonl: File too large".to_owned(),
        format!("the figures of {n_epochs} epochs are in "),
        "weights are lost, for there is no checkpoint; --checkpoint-every".to_owned(),
    ] {
        assert!(said.contains(&word), "{word}: {said}");
    }
    // The epochs fit, and the model does not.
    let out = folder.path().join("wide");
    let said = train(&out, "--hidden 64 --epochs 2");
    assert!(said.contains("model.safetensors: ") && said.contains("figures of 2 epochs"), "{said}");
    assert_eq!(epochs(&out).len(), 2);
    // A checkpoint does not either, and there is none before it.
    let said = train(&folder.path().join("kept"), "--hidden 64 --epochs 2 --checkpoint-every 1");
    assert!(said.contains("safetensors: ") && said.contains("no checkpoint before it"), "{said}");
}

#[test]
fn nothing_is_left_where_training_fails() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = run(&format!("train --data {GRAPH} {FAILS} --out {}", out.display()));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{errors}");
    assert!(errors.contains("epoch "), "{errors}");
    assert!(out.join("run.toml").exists() && !out.join("summary.json").exists());
}
