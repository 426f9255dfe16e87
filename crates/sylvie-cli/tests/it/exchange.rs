//! Bytes in the summary against a count made from the halo plan.

use serde_json::Value;
use sylvie::data::{ReadOptions, read};
use sylvie::graph::{Dataset, Direction, PartGraph, Role};
use sylvie::partition::{Method, Objective, build_parts};

use crate::program::{GRAPH, epochs, train};

const N_PARTS: u32 = 3;

/// Rows sent in an exchange over all parts, and messages forward and backward.
#[derive(Debug, PartialEq)]
struct Plan {
    n_rows: u64,
    n_messages: u64,
}

fn dataset(direction: Direction) -> Dataset {
    read(GRAPH, &ReadOptions { direction, ..ReadOptions::default() }).unwrap()
}

/// Counts the plan of the whole graph, or of the edges between training nodes.
fn plan(dataset: &Dataset, members: Option<&[bool]>) -> Plan {
    let train = training_nodes(dataset);
    let partitioner = Method::Metis.partitioner(Objective::Volume, 1);
    let assignment = partitioner.partition(&dataset.graph, &train, N_PARTS).unwrap();
    let parts: Vec<PartGraph> = build_parts(&dataset.graph, &assignment, members);
    let sends = parts.iter().flat_map(|part| &part.plan.sends);
    let n_rows: usize = sends.clone().map(|send| send.rows.len()).sum();
    let n_halo_blocks: usize = parts.iter().map(|part| part.halo_blocks().len()).sum();
    Plan { n_rows: n_rows as u64, n_messages: (sends.count() + n_halo_blocks) as u64 }
}

fn training_nodes(dataset: &Dataset) -> Vec<bool> {
    dataset.split.roles().iter().map(|&role| role == Role::Train).collect()
}

fn figure(summary: &Value, key: &str) -> u64 {
    summary[key].as_u64().unwrap_or_else(|| panic!("{key} in {summary}"))
}

#[test]
fn one_bit_sends_exactly_a_thirty_second_of_the_payload() {
    let folder = tempfile::tempdir().unwrap();
    let run = |preset: &str| {
        let out = folder.path().join(preset);
        let graph = format!("--data {GRAPH} --parts {N_PARTS}");
        let words = format!("{graph} --hidden 128 --layers 3 --eval-every 3 --preset {preset}");
        let summary = train(&out, &words);
        (summary, epochs(&out))
    };
    let dataset = dataset(Direction::Symmetric);
    let Plan { n_rows, n_messages } = plan(&dataset, None);
    assert!(n_rows > 0);
    // Layers 1 and 2, forward and backward.
    let n_exchanges = 2 * 2;
    let fp32 = n_exchanges * n_rows * 128 * 4;

    let (one_bit, of_epochs) = run("sylvie-s");
    assert_eq!(figure(&one_bit, "payload_bytes_per_epoch") * 32, fp32);
    assert_eq!(figure(&one_bit, "metadata_bytes_per_epoch"), n_exchanges * n_rows * 2 * 2);
    assert_eq!(figure(&one_bit, "halo_rows"), n_rows);
    for epoch in &of_epochs {
        assert_eq!(epoch["payload_bytes"], one_bit["payload_bytes_per_epoch"]);
        assert_eq!(epoch["metadata_bytes"], one_bit["metadata_bytes_per_epoch"]);
        assert_eq!(epoch["messages"], 2 * n_messages);
    }

    let (vanilla, _) = run("vanilla");
    assert_eq!(figure(&vanilla, "payload_bytes_per_epoch"), fp32);
    assert_eq!(figure(&vanilla, "metadata_bytes_per_epoch"), 0);
    for summary in [&one_bit, &vanilla] {
        assert_eq!(figure(summary, "fp32_bytes_per_epoch"), fp32);
        // Epochs 2 and 3, forward alone.
        assert_eq!(figure(summary, "eval_bytes"), 2 * 2 * n_rows * 128 * 4);
        assert_eq!(figure(summary, "setup_bytes"), n_rows * 9 * 4);
    }
}

#[test]
fn a_directed_graph_sends_along_its_edges() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words = format!("--data {GRAPH} --parts {N_PARTS} --directed --model gat --bits f16");
    let summary = train(&out, &words);
    let Plan { n_rows, .. } = plan(&dataset(Direction::Directed), None);
    let undirected = plan(&dataset(Direction::Symmetric), None);
    assert_ne!(n_rows, undirected.n_rows);
    assert_eq!(figure(&summary, "payload_bytes_per_epoch"), 2 * 2 * n_rows * 16 * 2);
    assert_eq!(figure(&summary, "halo_rows"), n_rows);
}

#[test]
fn inductive_training_exchanges_training_nodes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(Direction::Symmetric);
    let train_nodes = training_nodes(&dataset);
    let (whole, training) = (plan(&dataset, None), plan(&dataset, Some(&train_nodes)));
    assert!(training.n_rows < whole.n_rows);

    let out = folder.path().join("run");
    let summary = train(&out, &format!("--data {GRAPH} --parts {N_PARTS} --inductive --bits 8"));
    assert_eq!(figure(&summary, "payload_bytes_per_epoch"), 2 * 2 * training.n_rows * 16);
    assert_eq!(figure(&summary, "halo_rows"), training.n_rows);
    assert_eq!(figure(&summary, "eval_bytes"), 2 * 2 * whole.n_rows * 16 * 4);
    assert_eq!(figure(&summary, "setup_bytes"), (training.n_rows + whole.n_rows) * 9 * 4);
}

#[test]
fn one_part_exchanges_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let summary = train(&out, &format!("--data {GRAPH} --parts 1"));
    for key in ["payload_bytes_per_epoch", "fp32_bytes_per_epoch", "eval_bytes", "cut_edges"] {
        assert_eq!(figure(&summary, key), 0, "{key}");
    }
}
