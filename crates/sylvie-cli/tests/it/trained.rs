//! Trained networks, used again.

use std::fs;
use std::path::Path;

use npyz::NpyFile;
use safetensors::SafeTensors;
use serde_json::Value;
use sylvie::data::{ReadOptions, read};
use sylvie::graph::Labels;

use crate::files;
use crate::program::{GRAPH, MULTI, fail, objects, succeed, train};

fn scores(words: &str) -> Value {
    let mut objects = objects(&succeed(&format!("evaluate --json {words}")));
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

#[test]
fn evaluation_gives_the_scores_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    for (name, words) in [
        ("sage", format!("--data {GRAPH} --epochs 20 --split-seed 4 --normalize row")),
        ("gat", format!("--data {GRAPH} --model gat --directed --norm none")),
        ("f1", format!("--data {GRAPH} --metric macro-f1 --class-weights balanced --epochs 20")),
        ("gcn", format!("--data {MULTI} --model gcn --metric roc-auc --inductive --epochs 9")),
    ] {
        let run = folder.path().join(name);
        let summary = train(&run, &words);
        let data = words.split(' ').nth(1).unwrap();
        let found = scores(&format!("--data {data} --run {}", run.display()));
        assert_eq!(found["metric"], summary["metric"], "{name}");
        assert_eq!(found["val"], summary["best_val"], "{name}");
        assert_eq!(found["test"], summary["test_at_best_val"], "{name}");
        // On any number of parts, to rounding; the run's own data are the default.
        for parts in [1, 3] {
            let other = scores(&format!("--run {} --parts {parts}", run.display()));
            for set in ["train", "val", "test"] {
                let pair = [&found, &other].map(|scores| scores[set].as_f64().unwrap());
                assert!((pair[0] - pair[1]).abs() < 0.02, "{name}, {parts} parts: {pair:?}");
            }
        }
    }
}

#[test]
fn evaluation_tells_people_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let summary = train(&run, &format!("--data {GRAPH}"));
    let printed = succeed(&format!("evaluate --run {}", run.display()));
    let test = summary["test_at_best_val"].as_f64().unwrap();
    assert!(printed.contains(&format!("test        {test:.4}")), "{printed}");
}

#[test]
fn no_output_replaces_a_file_of_the_run_or_of_its_graph() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (graph, run, parts) = (at("graph"), at("run"), at("parts"));
    succeed(&format!("convert --data {GRAPH} --to arrays --out {graph}"));
    succeed(&format!("partition --data {graph} --parts 2 --out {parts}"));
    train(Path::new(&run), &format!("--data {graph} --epochs 2 --checkpoint-every 2"));
    let of_parts = at("of-parts");
    train(Path::new(&of_parts), &format!("--partition {parts} --epochs 1"));
    let state = format!("{run}/checkpoints/epoch-000002/shared.safetensors");
    for (words, taken) in [
        (format!("predict --run {run} --out"), format!("{run}/metrics.jsonl")),
        (format!("predict --run {run} --out {} --scores", at("ok.npy")), format!("{run}/run.toml")),
        (format!("predict --run {run} --embeddings"), state.clone()),
        (format!("predict --run {run} --out"), format!("{graph}/label.npy")),
        (format!("predict --run {of_parts} --out"), format!("{parts}/manifest.json")),
        (format!("train --data {graph} --epochs 1 --trace"), format!("{graph}/feat.npy")),
        (format!("train --partition {parts} --epochs 1 --trace"), format!("{parts}/manifest.json")),
        (format!("report --run {run} --overwrite --out"), state),
    ] {
        let before = fs::read(&taken).unwrap();
        let line = fail(&format!("{words} {taken}")).1;
        assert!(line.contains("take another name"), "{words}: {line}");
        assert_eq!(fs::read(&taken).unwrap(), before, "{words}");
    }
    succeed(&format!("predict --run {run} --out {run}/predictions.npy"));
}

#[test]
fn predictions_are_logits_of_every_node_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("predictions.npy"));
    let summary = train(&run, &format!("--data {GRAPH} --epochs 20"));
    let words = format!("predict --data {GRAPH} --run {} --out {}", run.display(), out.display());
    succeed(&words);
    let (shape, logits) = read_npy(&out);
    assert_eq!(shape, [240, 3]);

    let dataset = read(GRAPH, &ReadOptions::default()).unwrap();
    let Labels::Single { classes, .. } = &dataset.labels else { panic!("single labels") };
    let test = dataset.split.ids(sylvie::graph::Role::Test);
    let is_right = |&&node: &&u32| {
        let row = &logits[node as usize * 3..][..3];
        let class = (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        class == classes[node as usize] as usize
    };
    let accuracy = test.iter().filter(is_right).count() as f64 / test.len() as f64;
    assert_eq!(summary["test_at_best_val"], accuracy);

    // Once more, over the first file, on one part.
    succeed(&format!("{words} --parts 1"));
    let (_, alone) = read_npy(&out);
    let pairs = logits.iter().zip(&alone);
    let largest = logits.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    assert!(pairs.clone().all(|(a, b)| (a - b).abs() <= 1e-5 * largest));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// The last layer is linear, so that logits follow from embeddings, and scores from logits.
#[test]
fn embeddings_are_what_the_last_layer_reads() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    for (data, sums) in [(GRAPH, true), (MULTI, false)] {
        let [out, scores, hidden] =
            ["out", "scores", "hidden"].map(|name| folder.path().join(name));
        train(&run, &format!("--overwrite --data {data} --linear-layers 1 --parts 3"));
        succeed(&format!(
            "predict --run {} --out {} --scores {} --embeddings {}",
            run.display(),
            out.display(),
            scores.display(),
            hidden.display()
        ));
        let [(_, logits), (_, scores), (shape, hidden)] =
            [out, scores, hidden].map(|p| read_npy(&p));
        assert_eq!((logits.len(), scores.len(), &shape[..]), (720, 720, &[240, 16][..]));
        let model = fs::read(run.join("model.safetensors")).unwrap();
        let model = SafeTensors::deserialize(&model).unwrap();
        let tensor = |name: &str| -> Vec<f32> {
            let words = model.tensor(name).unwrap().data().as_chunks::<4>().0;
            words.iter().map(|word| f32::from_le_bytes(*word)).collect()
        };
        let (w, b) = (tensor("layers.2.w"), tensor("layers.2.b"));
        for node in 0..240 {
            let (logits, scores) = (&logits[node * 3..][..3], &scores[node * 3..][..3]);
            let row = &hidden[node * 16..][..16];
            assert!(row.iter().all(|&value| value >= 0.0), "after ReLU");
            for class in 0..3 {
                let sum: f32 = (0..16).map(|k| row[k] * w[k * 3 + class]).sum();
                let (found, logit) = (sum + b[class], logits[class]);
                assert!((found - logit).abs() < 1e-4, "node {node}: {found} instead of {logit}");
                assert_eq!(scores[class] > scores[0], logits[class] > logits[0]);
            }
            let sum: f32 = scores.iter().sum();
            assert!(!sums || (sum - 1.0).abs() < 1e-5, "{sum}");
            assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
        }
        // Each of the three can be had alone.
        let alone = folder.path().join("alone");
        succeed(&format!("predict --run {} --scores {}", run.display(), alone.display()));
        assert_eq!(read_npy(&alone).1, scores);
    }
    let refused = |words: &str| fail(&format!("predict --run {} {words}", run.display())).1;
    let out = folder.path().join("out").display().to_string();
    for spelled in [out.clone(), format!("{}/../out", run.display())] {
        let twice = refused(&format!("--out {out} --embeddings {spelled}"));
        assert!(twice.contains("another name for --embeddings"), "{twice}");
    }
    train(&run, &format!("--overwrite --data {GRAPH} --layers 1"));
    let shallow = refused(&format!("--out {out} --embeddings {out}.hidden"));
    assert!(shallow.contains("one layer"), "{shallow}");
}

fn read_npy(path: &Path) -> (Vec<u64>, Vec<f32>) {
    let bytes = fs::read(path).unwrap();
    let file = NpyFile::new(&bytes[..]).unwrap();
    (file.shape().to_vec(), file.into_vec().unwrap())
}

#[test]
fn what_does_not_fit_the_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &format!("--data {GRAPH}"));
    let refused = |words: &str| fail(&format!("evaluate --run {} {words}", run.display())).1;
    let features = refused("--data synthetic:nodes=240,features=8,classes=3");
    assert!(features.contains("has 8 features") && features.contains("is for 9"), "{features}");
    let classes = refused("--data synthetic:nodes=240,features=9,classes=4");
    assert!(classes.contains("has 4 classes") && classes.contains("is for 3"), "{classes}");
    let labels = refused(&format!("--data {MULTI}"));
    assert!(labels.contains("several a node") && labels.contains("one a node"), "{labels}");
    let split = refused("--split-index 2");
    assert!(split.contains("--split-index"), "{split}");
    let missing = refused("--data nowhere");
    assert!(missing.contains("nowhere"), "{missing}");

    let settings = fs::read_to_string(run.join("run.toml")).unwrap();
    fs::write(run.join("run.toml"), settings.replace("hidden = 16", "hidden = 32")).unwrap();
    let hidden = refused("");
    assert!(hidden.contains("model.safetensors") && hidden.contains("32"), "{hidden}");
    fs::write(run.join("model.safetensors"), "no tensors here").unwrap();
    let model = refused("");
    assert!(model.contains("model.safetensors") && model.contains("safetensors file"), "{model}");
    fs::remove_file(run.join("model.safetensors")).unwrap();
    assert!(refused("").contains("model.safetensors"));
    let (_, line) = fail(&format!("evaluate --run {}", folder.path().join("none").display()));
    assert!(line.contains("none"), "{line}");
}

#[test]
fn a_run_whose_graph_is_gone_takes_another() {
    let folder = tempfile::tempdir().unwrap();
    let (run, ring) = (folder.path().join("run"), folder.path().join("ring"));
    files::ring(&ring);
    train(&run, &format!("--data {} --parts 2", ring.display()));
    let moved = folder.path().join("moved");
    fs::rename(&ring, &moved).unwrap();
    let words = format!("evaluate --run {}", run.display());
    let (_, line) = fail(&words);
    assert!(line.contains("--data") && line.contains("no such file"), "{line}");
    succeed(&format!("{words} --data {}", moved.display()));
}

#[test]
fn a_network_is_used_on_a_graph_of_another_format() {
    let folder = tempfile::tempdir().unwrap();
    let (run, ring) = (folder.path().join("run"), folder.path().join("ring"));
    files::ring(&ring);
    let trained_on = "synthetic:nodes=60,degree=4,features=2,classes=2";
    train(&run, &format!("--data {trained_on} --format synthetic --parts 2"));
    let found = scores(&format!("--data {} --run {}", ring.display(), run.display()));
    assert!(found["test"].is_f64(), "{found}");
}
