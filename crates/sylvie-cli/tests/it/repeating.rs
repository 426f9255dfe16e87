//! The same settings give the same run.

use std::fs;

use serde_json::Value;

use crate::program::{GRAPH, MULTI, computed, epochs, summary, train};

#[test]
fn a_run_is_repeated_bit_for_bit_from_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    for (name, words) in [
        ("sage", format!("--data {GRAPH} --bits 2 --seed 5 --split-seed 3 --normalize standard")),
        ("gat", format!("--data {MULTI} --model gat --heads 2 --parts 3 --partitioner random")),
        ("gcn", format!("--data {GRAPH} --model gcn --inductive --metadata f32 --linear-layers 1")),
    ] {
        let (first, again) = (folder.path().join(name), folder.path().join(format!("{name}-2")));
        train(&first, &words);
        // The settings come from the file alone: those that `train` adds are the same.
        let config = first.join("run.toml");
        train(&again, &format!("--config {}", config.display()));
        assert_eq!(computed(&first), computed(&again), "{name}");
        for file in ["run.toml", "model.safetensors"] {
            assert!(fs::read(first.join(file)).unwrap() == fs::read(again.join(file)).unwrap());
        }
    }
}

#[test]
fn flags_come_before_the_file_and_the_file_before_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mine.toml");
    fs::write(&config, format!("data = '{GRAPH}'\npreset = 'vanilla'\nparts = 2\n")).unwrap();
    let config = config.display();

    let out = folder.path().join("file");
    let of_file = train(&out, &format!("--config {config}"));
    assert_eq!(of_file["parts"], 2);
    assert_eq!(of_file["payload_bytes_per_epoch"], of_file["fp32_bytes_per_epoch"]);
    let out = folder.path().join("flags");
    let of_flags = train(&out, &format!("--config {config} --parts 3 --preset sylvie-s"));
    assert_eq!(of_flags["parts"], 3);
    let payload = of_flags["payload_bytes_per_epoch"].as_u64().unwrap();
    assert_eq!(of_flags["fp32_bytes_per_epoch"], payload * 32);
    let out = folder.path().join("beside");
    let beside = train(&out, &format!("--config {config} --preset sylvie-s --codec 8"));
    let payload = beside["payload_bytes_per_epoch"].as_u64().unwrap();
    assert_eq!(beside["fp32_bytes_per_epoch"], payload * 4);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // More rows than one chunk of work, so that threads share them.
    let graph = "synthetic:nodes=2400,degree=6,features=9,classes=3";
    let runs = [1, 2, 4].map(|n_threads| {
        let out = folder.path().join(n_threads.to_string());
        train(&out, &format!("--data {graph} --parts 2 --threads {n_threads}"));
        (computed(&out), fs::read(out.join("model.safetensors")).unwrap())
    });
    assert!(runs[0] == runs[1] && runs[0] == runs[2]);
}

#[test]
fn another_seed_gives_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let losses = [1, 2].map(|seed| {
        let out = folder.path().join(seed.to_string());
        train(&out, &format!("--data {GRAPH} --seed {seed}"));
        epochs(&out)[0]["loss"].clone()
    });
    assert_ne!(losses[0], losses[1]);
}

#[test]
fn training_goes_on_from_given_weights() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    train(&first, &format!("--data {GRAPH} --epochs 30 --dropout 0"));
    let init = first.join("model.safetensors");
    // A step too small to matter: the network that was read is the one that is scored.
    train(&second, &format!("--data {GRAPH} --lr 1e-12 --dropout 0 --init {}", init.display()));
    let (before, after) = (summary(&first), summary(&second));
    assert_eq!(before["best_val"], after["best_val"]);
    assert_eq!(before["test_at_best_val"], after["test_at_best_val"]);
    assert!(before["best_val"].as_f64() > Some(0.5), "{before}");
    assert_ne!(epochs(&first)[0]["loss"], epochs(&second)[0]["loss"]);
    assert_ne!(before["loss"], Value::Null);
}
