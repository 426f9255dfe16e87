//! Partition folders: written once, trained on without the graph.

use std::fs;
use std::path::Path;

use crate::files;
use crate::program::{GRAPH, MULTI, computed, fail, succeed, summary, train};

/// Writes a partition folder at `dir`.
#[track_caller]
fn write(dir: &Path, words: &str) -> String {
    succeed(&format!("partition --out {} {words}", dir.display()))
}

#[test]
fn training_on_parts_gives_the_bits_of_training_on_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    let ring = folder.path().join("ring");
    files::ring(&ring);
    let ring = format!("{} --directed --normalize standard", ring.display());
    for (name, data, split, run) in [
        ("sage", GRAPH, "--parts 3 --split-seed 4", "--bits 2"),
        ("gcn", GRAPH, "--parts 4 --seed 5 --partitioner random", "--model gcn --preset sylvie-a"),
        ("gat", MULTI, "--parts 2 --objective cut --inductive", "--model gat --heads 2"),
        ("one-way", &ring, "--parts 2 --partitioner contiguous", "--preset vanilla"),
    ] {
        let of_graph = folder.path().join(format!("{name}-graph"));
        let of_parts = folder.path().join(format!("{name}-parts"));
        let parts = folder.path().join(name);
        train(&of_graph, &format!("--data {data} {split} {run}"));
        write(&parts, &format!("--data {data} {split}"));
        // The seed of the run is the run's own affair.
        let seed = if split.contains("--seed 5") { "--seed 5" } else { "" };
        train(&of_parts, &format!("--partition {} {run} {seed}", parts.display()));
        assert_eq!(computed(&of_graph), computed(&of_parts), "{name}");
        let model = |run: &Path| fs::read(run.join("model.safetensors")).unwrap();
        assert!(model(&of_graph) == model(&of_parts), "{name}");
        let (of_graph, of_parts) = (summary(&of_graph), summary(&of_parts));
        for key in ["cut_edges", "halo_rows", "parts", "metric", "fp32_bytes_per_epoch"] {
            assert_eq!(of_graph[key], of_parts[key], "{name}: {key}");
        }
    }
}

#[test]
fn a_run_on_parts_is_repeated_scored_and_used_without_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ring = path("ring");
    files::ring(&ring);
    let split = format!("--data {} --parts 3 --inductive", ring.display());
    assert!(write(&path("parts"), &split).contains("parts in "));
    let (of_graph, run) = (path("of-graph"), path("run"));
    train(&of_graph, &split);
    fs::rename(&ring, path("elsewhere")).unwrap();
    let trained = train(&run, &format!("--partition {}", path("parts").display()));

    let settings = fs::read_to_string(run.join("run.toml")).unwrap();
    for line in ["partition = ", "parts = 3\n", "inductive = true\n", "data = "] {
        assert!(settings.contains(line), "{line} in\n{settings}");
    }
    train(&path("again"), &format!("--config {}", run.join("run.toml").display()));
    assert_eq!(computed(&run), computed(&path("again")));

    let scores = succeed(&format!("evaluate --json --run {}", run.display()));
    let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
    assert_eq!(scores["test"], trained["test_at_best_val"]);
    // Another run's network, on the same parts.
    let parts = path("parts");
    let words =
        format!("evaluate --json --run {} --partition {}", of_graph.display(), parts.display());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&succeed(&words)).unwrap(), scores);
    let (of_parts, of_data) = (path("parts.npy"), path("data.npy"));
    succeed(&format!("predict --run {} --out {}", run.display(), of_parts.display()));
    let data = path("elsewhere");
    let words = format!("--data {} --run {}", data.display(), run.display());
    succeed(&format!("predict {words} --out {}", of_data.display()));
    assert!(fs::read(of_parts).unwrap() == fs::read(of_data).unwrap());
}

#[test]
fn flags_beside_a_partition_must_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("parts");
    write(&parts, &format!("--data {GRAPH} --parts 2"));
    let shown = parts.display();
    train(&folder.path().join("same"), &format!("--partition {shown} --data {GRAPH} --parts 2"));
    for (words, named) in [
        ("--parts 3", "written with --parts 2, not --parts 3"),
        ("--data synthetic", "--data"),
        ("--directed", "--directed false, not --directed true"),
        ("--normalize row", "--normalize"),
        ("--split-seed 7", "--split-seed"),
        ("--split-index 1", "--split-index"),
        ("--format arrays", "--format"),
        ("--partitioner random", "--partitioner"),
        ("--objective cut", "--objective"),
        ("--inductive", "--inductive false, not --inductive true"),
    ] {
        let (status, line) = fail(&format!("train --partition {shown} {words}"));
        assert_eq!(status, 1, "{line}");
        assert!(line.contains(named) && line.contains(&*shown.to_string()), "{words}: {line}");
    }
    let config = folder.path().join("mine.toml");
    fs::write(&config, "parts = 3").unwrap();
    let config = config.display();
    let (_, line) = fail(&format!("train --config {config} --partition {shown}"));
    assert!(line.contains("not --parts 3"), "{line}");

    let run = folder.path().join("same");
    let run = run.display();
    let (_, line) = fail(&format!("evaluate --run {run} --parts 3"));
    assert!(line.contains("the run's own partition") && line.contains("--parts 3"), "{line}");
    let (status, line) = fail(&format!("evaluate --run {run} --data x --partition y"));
    assert!(status == 2 && line.contains("--partition"), "{line}");
    // Another partition in the place of the one that was trained on.
    write(&parts, &format!("--overwrite --data {GRAPH} --parts 4"));
    let (_, line) = fail(&format!("evaluate --run {run}"));
    assert!(line.contains("written with --parts 4, not --parts 2"), "{line}");
}

#[test]
fn folders_that_are_not_as_they_were_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("parts");
    let shown = parts.display();
    let words = format!("train --partition {shown} --quiet");
    let (status, line) = fail(&words);
    assert!(status == 1 && line.contains("sylvie partition --out"), "{line}");
    write(&parts, &format!("--data {GRAPH} --parts 2"));
    let (_, line) = fail(&format!("partition --data {GRAPH} --parts 2 --out {shown}"));
    assert!(line.contains("--overwrite"), "{line}");
    for flag in ["--overwrite", "--inductive"] {
        let (status, line) = fail(&format!("partition {flag}"));
        assert!(status == 2 && line.contains("--out"), "{line}");
    }
    let file = parts.join("part-0001.safetensors");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    let (_, line) = fail(&words);
    assert!(line.contains("part-0001.safetensors") && line.contains("bytes where"), "{line}");
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 4;
    fs::write(&file, &altered).unwrap();
    let (_, line) = fail(&words);
    assert!(line.contains("part-0001.safetensors") && line.contains("SHA-256"), "{line}");
    fs::remove_file(&file).unwrap();
    let (_, line) = fail(&words);
    assert!(line.contains("part-0001.safetensors: not there"), "{line}");
    fs::write(parts.join("manifest.json"), "{}").unwrap();
    let (_, line) = fail(&words);
    assert!(line.contains("manifest.json: no manifest"), "{line}");
    // gcn is refused by what the folder says of its edges.
    let one_way = folder.path().join("one-way");
    write(&one_way, &format!("--data {GRAPH} --parts 2 --directed"));
    let (_, line) = fail(&format!("train --model gcn --partition {}", one_way.display()));
    assert!(line.contains("symmetric"), "{line}");
}
