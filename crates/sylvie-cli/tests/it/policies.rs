//! What crosses the split, and when: every flag of it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sylvie::pipeline::Preset;
use toml::Table;

use crate::program::{GRAPH, computed, epochs, fail, succeed, train};

fn run_toml(folder: &Path) -> Table {
    fs::read_to_string(folder.join("run.toml")).unwrap().parse().unwrap()
}

/// Trains and gives what was computed.
fn trained(folder: &Path, name: &str, words: &str) -> Vec<Vec<Value>> {
    let out = folder.join(name);
    train(&out, &format!("--data {GRAPH} --parts 3 {words}"));
    computed(&out)
}

#[test]
fn every_flag_is_taken_and_lands_in_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("", &[("preset", "'sylvie-s'"), ("bits_forward", "'1'"), ("boundary_sampling", "1.0")]),
        ("--preset sylvie-a", &[("schedule", "'async'"), ("staleness", "0"), ("link", "'none'")]),
        ("--preset bns-gcn --bits 4", &[("boundary_sampling", "0.1"), ("bits_backward", "'4'")]),
        ("--preset bns-gcn --boundary-sampling 1", &[("boundary_sampling", "1.0")]),
        ("--preset sar", &[("memory", "'sequential'"), ("bits_forward", "'f32'")]),
        ("--preset quantize-all --scope boundary", &[("scope", "'boundary'")]),
        ("--codec 4,2", &[("bits_forward", "'4,2'"), ("bits_backward", "'4,2'")]),
        (
            "--bits 8 --bits-forward f16,1 --metadata f32",
            &[("bits_forward", "'f16,1'"), ("bits_backward", "'8'"), ("metadata", "'f32'")],
        ),
        ("--bits-backward bf16", &[("bits_forward", "'1'"), ("bits_backward", "'bf16'")]),
        (
            "--schedule async --staleness 3 --staleness-scope gradients",
            &[("staleness", "3"), ("staleness_scope", "'gradients'"), ("preset", "'sylvie-s'")],
        ),
        ("--schedule sync --overlap", &[("schedule", "'sync'"), ("overlap", "true")]),
        ("--overlap=false --memory sequential", &[("overlap", "false")]),
        (
            "--preset pipegcn --smooth features --smooth-decay 0.5",
            &[("smooth", "'features'"), ("smooth_decay", "0.5")],
        ),
        ("--halo packed", &[("halo", "'packed'")]),
        ("--gather bf16", &[("halo", "'auto'"), ("gather", "'bf16'")]),
        ("--link 10GB/S,20US", &[("link", "'10Gbps,20us'")]),
        ("--parts 3 --link 1Gbps,ranks-per-host=2", &[("link", "'1Gbps,ranks-per-host=2'")]),
    ];
    for (number, (words, expected)) in cases.iter().enumerate() {
        let out = folder.path().join(number.to_string());
        train(&out, &format!("--data {GRAPH} --epochs 1 --parts 2 {words}"));
        let found = run_toml(&out);
        for (key, value) in *expected {
            let value: Table = format!("it = {value}").parse().unwrap();
            assert_eq!(found[*key], value["it"], "{key} of `{words}`");
        }
    }
}

#[test]
fn what_cannot_be_combined_is_refused_before_anything_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (words, named) in [
        ("--staleness 2", "--staleness cannot be combined with --schedule sync: every epoch"),
        ("--preset pipegcn --staleness-scope features", "--staleness-scope cannot be combined"),
        ("--preset sar --schedule async", "stale rows of every remote part"),
        ("--preset sylvie-a --memory sequential", "--memory sequential cannot be combined"),
        ("--preset sar --overlap", "--memory sequential cannot be combined with --overlap"),
        ("--preset sylvie-a --overlap", "an asynchronous exchange is hidden already"),
        ("--smooth both", "--smooth cannot be combined with --schedule sync"),
        ("--preset pipegcn --smooth both --boundary-sampling 0.5", "--boundary-sampling"),
        ("--bits 4,2,1", "--bits has 3 values, but 2 layers are exchanged"),
        ("--bits-forward 4,2,1", "--bits-forward has 3 values"),
        ("--linear-layers 1 --bits-backward 4,2", "1 layers are exchanged"),
        ("--staleness-scope gradients", "--staleness-scope cannot be combined"),
        ("--preset sylvie-a --smooth-decay 0.5", "--smooth-decay has no effect without --smooth"),
        ("--model gat --halo packed", "--halo packed cannot be combined with --model gat"),
        ("--preset bns-gcn --bits 1 --halo packed", "cannot be combined with --boundary-sampling"),
        ("--halo packed --gather bf16", "--halo packed cannot be combined with --gather bf16"),
        ("--preset vanilla --halo packed", "--halo has no effect at these widths"),
        ("--device cuda --halo packed", "--halo has no effect with --device cuda"),
        ("--device cuda:1 --gather bf16", "--gather has no effect with --device cuda:1"),
        ("--layers 1 --gather bf16", "--gather has no effect with one graph layer"),
        ("--model sage --heads 2", "--heads has no effect with --model sage"),
    ] {
        let (status, line) = fail(&format!("train --data nowhere --out {} {words}", out.display()));
        assert_eq!(status, 1, "{words}: {line}");
        assert!(line.contains(named), "{words}: {line}");
        assert!(!out.exists(), "{words}");
    }
    // A value that no setting could be is one of the command line.
    for (words, named) in [
        ("--schedule later", "--schedule"),
        ("--staleness -1", "--staleness"),
        ("--staleness-scope none", "--staleness-scope"),
        ("--boundary-sampling 0", "not in (0, 1]"),
        ("--boundary-sampling 1.5", "not in (0, 1]"),
        ("--boundary-sampling NaN", "not in (0, 1]"),
        ("--memory some", "--memory"),
        ("--smooth all", "none, features, gradients, both"),
        ("--smooth-decay 1", "not in [0, 1)"),
        ("--scope halo", "--scope"),
        ("--halo 1", "--halo"),
        ("--gather f16", "allowed are f32 and bf16"),
        ("--overlap=perhaps", "--overlap"),
        ("--bits 1,3", "--bits"),
        ("--bits-forward ,", "--bits-forward"),
        ("--link fast", "not a bandwidth"),
        ("--link 1Gbps,5", "not a latency"),
        ("--link 1Gbps,hosts=2", "ranks-per-host"),
    ] {
        let (status, line) = fail(&format!("train --data nowhere --out {} {words}", out.display()));
        assert_eq!(status, 2, "{words}: {line}");
        assert!(line.contains(named) && !out.exists(), "{words}: {line}");
    }
}

#[test]
fn what_a_file_cannot_combine_is_refused_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mine.toml");
    fs::write(&config, "preset = 'sylvie-a'\nstaleness = 2\nsmooth = 'both'\nlink = '1Gbps'\n")
        .unwrap();
    let config = config.display();
    let words = format!("train --quiet --data {GRAPH} --hidden 8 --epochs 1 --config {config}");
    succeed(&words);
    let (_, line) = fail(&format!("{words} --boundary-sampling 0.5"));
    assert!(line.contains("--smooth cannot be combined with --boundary-sampling"), "{line}");
    // A flag takes back what the file gives; a preset takes back all but the link.
    succeed(&format!("{words} --boundary-sampling 0.5 --smooth none"));
    let out = folder.path().join("run");
    succeed(&format!("{words} --preset vanilla --out {}", out.display()));
    let found = run_toml(&out);
    assert_eq!(found["link"].as_str(), Some("1Gbps"));
    assert_eq!(
        (found["staleness"].as_integer(), found["smooth"].as_str()),
        (Some(0), Some("none"))
    );
    succeed(&format!("{words} --link none"));
}

#[test]
fn every_preset_trains() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["sage", "gat"] {
        let runs = Preset::ALL.map(|preset| {
            let words = format!("--model {model} --preset {preset} --epochs 12");
            trained(folder.path(), &format!("{model}-{preset}"), &words)
        });
        for (preset, run) in Preset::ALL.iter().zip(&runs) {
            let loss = |epoch: usize| run[epoch][1].as_f64().unwrap();
            assert!(loss(11) < loss(0), "{model}, {preset}: {run:?}");
        }
        let [vanilla, sylvie_s, sylvie_a, pipegcn, bns_gcn, sar, quantize_all] = runs;
        // Without neighbours in the first epoch; from there on they differ in precision.
        assert_eq!(sylvie_a[0][1], pipegcn[0][1], "{model}");
        assert!(sylvie_a[0][1] != sylvie_s[0][1] && sylvie_a[3][1] != pipegcn[3][1], "{model}");
        assert_ne!(quantize_all[0][1], sylvie_s[0][1], "{model}");
        // A payload is that of the rows sent.
        let payload = |run: &[Vec<Value>]| run[5][5].as_u64().unwrap();
        assert_eq!(payload(&quantize_all), payload(&sylvie_s), "{model}");
        assert!(payload(&bns_gcn) * 4 < payload(&vanilla), "{model}");
        if model == "sage" {
            assert_eq!(sar, vanilla);
        } else {
            // Attention fetches its rows once more.
            assert!(payload(&sar) > payload(&vanilla));
        }
    }
}

#[test]
fn an_asynchronous_run_is_repeated_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for (name, words) in [
        ("sylvie-a", "--preset sylvie-a"),
        ("bounded", "--preset sylvie-a --staleness 3 --staleness-scope features --bits 2,f16"),
        ("pipegcn", "--preset pipegcn --smooth both --smooth-decay 0.5 --model gcn"),
        ("sampled", "--preset bns-gcn --schedule async --bits-backward 4 --model gat"),
    ] {
        let first = trained(folder.path(), name, &format!("--epochs 7 {words}"));
        let again = folder.path().join(format!("{name}-again"));
        let config = folder.path().join(name).join("run.toml");
        train(&again, &format!("--epochs 7 --config {}", config.display()));
        assert_eq!(first, computed(&again), "{name}");
        assert_eq!(run_toml(&again), run_toml(&folder.path().join(name)));
        // However late the messages are.
        let late = trained(
            folder.path(),
            &format!("{name}-late"),
            &format!("--epochs 7 {words} --link 20Mbps,300us"),
        );
        assert_eq!(first, late, "{name}");
    }
}

#[test]
fn a_bound_of_one_epoch_is_the_synchronous_run() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["sage", "gcn", "gat"] {
        let run = |name: &str, words: &str| {
            let words = format!("--model {model} --epochs 5 {words}");
            trained(folder.path(), &format!("{model}-{name}"), &words)
        };
        let sylvie_s = run("s", "--preset sylvie-s");
        assert_eq!(run("a", "--preset sylvie-a --staleness 1"), sylvie_s, "{model}");
        assert_eq!(run("overlap", "--preset sylvie-s --overlap"), sylvie_s, "{model}");
        assert_ne!(run("two", "--preset sylvie-a --staleness 2"), sylvie_s, "{model}");
    }
}

#[test]
fn widths_of_each_layer_and_pass_are_those_sent() {
    let folder = tempfile::tempdir().unwrap();
    // Per row: 16 columns forward and backward, on each of two layers.
    let payload =
        |name: &str, words: &str| trained(folder.path(), name, words)[1][5].as_u64().unwrap();
    let one = payload("1", "--bits 1");
    for (name, words, bits_a_value) in [
        ("4,2", "--bits 4,2", 2 * (4 + 2)),
        ("2,4", "--bits 2,4", 2 * (2 + 4)),
        ("f,b", "--bits-forward f16 --bits-backward 8", 2 * (16 + 8)),
        ("b", "--bits f32 --bits-forward 1,8", 1 + 8 + 2 * 32),
    ] {
        assert_eq!(payload(name, words) * 4, one * bits_a_value, "{words}");
    }
}

#[test]
fn messages_take_the_time_of_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let fast = trained(folder.path(), "fast", "--preset vanilla");
    let slow = trained(folder.path(), "slow", "--preset vanilla --link 1Gbps,20ms");
    assert_eq!(fast, slow);
    // Four exchanges an epoch, each after the one before: the rank that began first took as long.
    for epoch in epochs(&folder.path().join("slow")) {
        let times = epoch["ranks"].as_array().unwrap().iter().map(|rank| {
            let part = |key: &str| rank[key].as_f64().unwrap();
            part("compute_ms") + part("blocked_ms") + part("reduce_ms")
        });
        let longest = times.fold(0.0, f64::max);
        assert!(longest >= 4.0 * 20.0, "{epoch}");
    }
}
