//! Runs the program.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A graph that trains in a moment.
pub(crate) const GRAPH: &str = "synthetic:nodes=240,degree=6,features=9,classes=3";
/// The same with several classes a node.
pub(crate) const MULTI: &str = "synthetic:nodes=240,degree=6,features=9,classes=3,multi=1";

/// Runs `sylvie`; words are separated by spaces.
pub(crate) fn run(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sylvie"));
    command.args(words.split_whitespace()).output().expect("the program starts")
}

/// Runs `sylvie`, which must succeed without a word on standard error, and gives what it printed.
#[track_caller]
pub(crate) fn succeed(words: &str) -> String {
    let output = run(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs `sylvie`, which must fail with one line on standard error and nothing else; gives status and
/// line.
#[track_caller]
pub(crate) fn fail(words: &str) -> (i32, String) {
    fail_at(&words.split_whitespace().collect::<Vec<_>>())
}

/// The same with words in which there may be spaces.
#[track_caller]
pub(crate) fn fail_at(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sylvie"));
    let output = command.args(words).output().expect("the program starts");
    let words = words.join(" ");
    let errors = String::from_utf8(output.stderr).expect("text");
    let status = output.status.code().expect("no signal");
    assert_ne!(status, 0, "{words}: succeeded");
    assert_eq!(errors.lines().count(), 1, "{words}: {errors}");
    let line = errors.trim_end().strip_prefix("error: ");
    let line = line.unwrap_or_else(|| panic!("{words}: {errors}"));
    assert!(!line.contains("panicked"), "{words}: {line}");
    (status, line.to_owned())
}

/// The JSON values in lines of text.
#[track_caller]
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let object = |line: &str| match serde_json::from_str(line) {
        Ok(value @ Value::Object(_)) => value,
        other => panic!("{line}: {other:?}"),
    };
    text.lines().map(object).collect()
}

/// Trains into `folder` with a few epochs of a small network, and gives the summary.
#[track_caller]
pub(crate) fn train(folder: &Path, words: &str) -> Value {
    let folder = folder.display();
    succeed(&format!("train --quiet --epochs 4 --eval-every 2 --hidden 16 --out {folder} {words}"));
    summary(Path::new(&folder.to_string()))
}

/// A run's summary.
pub(crate) fn summary(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// A run's epochs.
pub(crate) fn epochs(folder: &Path) -> Vec<Value> {
    objects(&std::fs::read_to_string(folder.join("metrics.jsonl")).expect("metrics"))
}

/// What a run computed, bit for bit: losses, scores and bytes of all epochs.
pub(crate) fn computed(folder: &Path) -> Vec<Vec<Value>> {
    let keys = ["epoch", "loss", "train", "val", "test", "payload_bytes", "metadata_bytes"];
    let values = |epoch: Value| keys.iter().map(|key| epoch[key].clone()).collect();
    epochs(folder).into_iter().map(values).collect()
}
