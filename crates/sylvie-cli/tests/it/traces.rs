//! `train --trace`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sylvie::gnn::{ModelConfig, ModelKind, NormKind};
use sylvie::pipeline::{ExchangePolicy, Memory, Preset, Step, plan_epoch, plan_forward};

use crate::program::{GRAPH, fail, run, succeed};

const N_PARTS: u32 = 3;
const N_EPOCHS: u32 = 5;

fn events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    trace["traceEvents"].as_array().expect("events").clone()
}

/// Events of a phase of one rank, and of one thread where that is said.
fn of<'a>(events: &'a [Value], ph: &str, rank: u32, tid: Option<u32>) -> Vec<&'a Value> {
    let is_thread = |event: &Value| tid.is_none_or(|tid| event["tid"] == tid);
    let is_meant = |event: &&Value| event["ph"] == ph && event["pid"] == rank && is_thread(event);
    events.iter().filter(is_meant).collect()
}

fn names(events: &[&Value], epoch: u32, purpose: &str) -> Vec<String> {
    let is_meant =
        |event: &&&Value| event["args"]["epoch"] == epoch && event["args"]["purpose"] == purpose;
    events.iter().filter(is_meant).map(|event| event["name"].as_str().unwrap().to_owned()).collect()
}

fn words(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

fn model(kind: ModelKind) -> ModelConfig {
    let (widths, norm) = (vec![9, 16, 16, 3], NormKind::Layer);
    ModelConfig { kind, widths, n_linear: 0, n_heads: 4, dropout: 0.5, norm }
}

/// Spans of a thread follow each other, and so do the lines of the file.
fn assert_in_order(events: &[Value], rank: u32) {
    let number = |event: &Value, key: &str| event[key].as_f64().expect("a time");
    let timed = events.iter().filter(|event| event["ph"] != "M");
    assert!(timed.map(|event| number(event, "ts")).is_sorted());
    for tid in [0, 1] {
        let spans = of(events, "X", rank, Some(tid));
        assert!(!spans.is_empty());
        for pair in spans.windows(2) {
            let end = number(pair[0], "ts") + number(pair[0], "dur");
            // Nanoseconds, told in microseconds.
            assert!(end <= number(pair[1], "ts") + 1e-6, "{pair:?}");
        }
    }
}

/// Every transfer begins once and then ends.
fn n_transfers(events: &[Value], rank: u32) -> usize {
    let by_id = |ph| -> BTreeMap<String, &Value> {
        let found = of(events, ph, rank, None);
        let ids = found.iter().map(|event| (event["id"].as_str().unwrap().to_owned(), *event));
        let by_id: BTreeMap<_, _> = ids.collect();
        assert_eq!(by_id.len(), found.len(), "numbers are given once");
        by_id
    };
    let (begins, ends) = (by_id("b"), by_id("e"));
    assert!(begins.keys().eq(ends.keys()));
    for (begin, end) in begins.values().zip(ends.values()) {
        assert!(begin["ts"].as_f64() <= end["ts"].as_f64());
        for key in ["name", "cat", "args"] {
            assert_eq!(begin[key], end[key]);
        }
    }
    begins.len()
}

fn assert_follows_the_plan(events: &[Value], model: &ModelConfig, policy: &ExchangePolicy) {
    for rank in 0..N_PARTS {
        let named = of(events, "M", rank, None);
        let named: Vec<_> = named.iter().map(|e| e["args"]["name"].as_str().unwrap()).collect();
        assert_eq!(named, [&*format!("rank {rank}"), "compute", "communication"]);
        assert_in_order(events, rank);

        let (compute, beside) = (of(events, "X", rank, Some(0)), of(events, "X", rank, Some(1)));
        let mut n_started = 0;
        let mut count = |steps: &[Step]| {
            n_started += steps
                .iter()
                .filter(|step| matches!(step, Step::Start(..) | Step::Leave(_)))
                .count();
        };
        for epoch in 0..N_EPOCHS {
            let plan = plan_epoch(model, policy, N_PARTS, epoch);
            assert_eq!(names(&compute, epoch, "training"), words(&plan), "rank {rank}");
            count(&plan);
            let mut sums = names(&beside, epoch, "training");
            sums.retain(|name| name.starts_with("sum "));
            assert_eq!(sums, ["sum 2", "sum 1", "sum 0"]);
            let is_evaluated = [1, 3, 4].contains(&epoch);
            let plan = plan_forward(model, policy.memory, N_PARTS);
            let plan = if is_evaluated { plan } else { Vec::new() };
            assert_eq!(names(&compute, epoch, "evaluation"), words(&plan), "rank {rank}");
            count(&plan);
        }
        for what in ["encode ", "decode "] {
            let is_meant = |event: &&&Value| event["name"].as_str().unwrap().starts_with(what);
            assert_eq!(beside.iter().filter(is_meant).count(), n_started, "{what}");
        }
        assert_eq!(n_transfers(events, rank), n_started);
    }
}

#[test]
fn every_step_of_the_plan_appears_once_a_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let bounded = ExchangePolicy { staleness: 3, ..Preset::SylvieA.policy() };
    let sequential = ExchangePolicy { memory: Memory::Sequential, ..Preset::SylvieS.policy() };
    for (flags, kind, policy) in [
        ("--preset sylvie-s", ModelKind::Sage, Preset::SylvieS.policy()),
        ("--preset sylvie-a --staleness 3", ModelKind::Gcn, bounded),
        ("--preset sylvie-s --memory sequential", ModelKind::Gat, sequential),
        ("--preset sylvie-a --link 50Mbps,1ms", ModelKind::Sage, Preset::SylvieA.policy()),
    ] {
        // The file is replaced each time.
        let printed = succeed(&format!(
            "train --data {GRAPH} --parts {N_PARTS} --epochs {N_EPOCHS} --eval-every 2 --hidden 16 \
             --model {kind} {flags} --trace {}",
            path.display()
        ));
        assert!(printed.contains(&format!("trace in {}", path.display())), "{printed}");
        assert_follows_the_plan(&events(&path), &model(kind), &policy);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_trace_may_lie_in_the_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs/one");
    let words = format!(
        "train --quiet --data {GRAPH} --hidden 8 --epochs 1 --out {0} --trace {0}/trace.json",
        out.display()
    );
    // What is made in vain is gone, the folder too.
    fail(&words.replace(GRAPH, "nowhere"));
    assert!(!folder.path().join("runs").exists());
    succeed(&words);
    succeed(&format!("{words} --overwrite"));
    assert!(!events(&out.join("trace.json")).is_empty());
    assert_eq!(fs::read_dir(&out).unwrap().count(), 5);
    // Not in the place of what the run writes itself.
    for name in ["metrics.jsonl", "../one/summary.json", ".new/run.toml", ".new"] {
        let words = format!("{words} --overwrite").replace("trace.json", name);
        assert!(fail(&words).1.contains("--trace"), "{name}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 5);
}

#[test]
fn a_run_that_fails_is_traced_as_far_as_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "old").unwrap();
    let words = format!("train --data {GRAPH} --hidden 16 --trace {}", path.display());
    fail(&words.replace(GRAPH, "nowhere"));
    fail(&format!("{words} --staleness 2"));
    assert_eq!(fs::read(&path).unwrap(), b"old");

    // A step this long carries every weight out of range.
    let output = run(&format!("{words} --epochs 9 --norm none --lr 1e38"));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{errors}");
    let events = events(&path);
    let steps = of(&events, "X", 0, Some(0));
    assert!(names(&steps, 0, "training").contains(&"update".to_owned()));
    assert!(names(&steps, 8, "training").is_empty());
}

/// Neither a trace nor predictions take the place of what is read.
#[test]
fn what_a_command_reads_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (config, run) = (folder.path().join("c.toml"), folder.path().join("run"));
    fs::write(&config, "hidden = 8\nepochs = 1\n").unwrap();
    let (config, run) = (config.display().to_string(), run.display().to_string());
    let train = format!("train --quiet --data {GRAPH} --config {config}");
    succeed(&format!("{train} --out {run}"));
    let model = format!("{run}/model.safetensors");
    let whole = fs::read(&model).unwrap();
    for words in [
        format!("{train} --trace {config}"),
        format!("{train} --init {model} --trace {run}/../run/model.safetensors"),
        format!("predict --run {run} --out {model}"),
    ] {
        assert!(fail(&words).1.contains("take another name"), "{words}");
    }
    assert_eq!(fs::read(&model).unwrap(), whole);
    assert_eq!(fs::read_to_string(&config).unwrap(), "hidden = 8\nepochs = 1\n");
}

#[test]
fn a_trace_that_cannot_be_written_is_told_before_training() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("missing/trace.json")] {
        let words = format!("train --data nowhere --trace {}", path.display());
        let (status, line) = fail(&words);
        assert_eq!(status, 1);
        assert!(line.contains(&path.display().to_string()), "{line}");
    }
}
