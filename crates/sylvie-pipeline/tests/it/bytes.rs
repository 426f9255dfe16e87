//! What is sent, against a count made from the plan alone.

use std::collections::BTreeSet;

use sylvie_gnn::ModelKind;
use sylvie_graph::{Assignment, Dataset, Role};
use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_pipeline::{ExchangePolicy, TrainSettings};

use crate::fixture::{Setting, Shape, dataset, inputs, random_parts, run, settings};

/// Halo rows and messages of one exchange, over all parts: distinct remote nodes that a part reads,
/// and pairs of parts of which one reads the other. Counted from the edges.
fn count_halo(
    data: &Dataset,
    assignment: &Assignment,
    is_member: impl Fn(usize) -> bool,
) -> (u64, u64) {
    let parts = assignment.parts();
    let (mut rows, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    for target in (0..data.n_nodes()).filter(|&v| is_member(v)) {
        for &source in data.graph.row(target).iter().filter(|&&u| is_member(u as usize)) {
            let (reader, owner) = (parts[target], parts[source as usize]);
            if reader != owner {
                rows.insert((reader, source));
                pairs.insert((reader, owner));
            }
        }
    }
    (rows.len() as u64, pairs.len() as u64)
}

fn wide_settings(kind: ModelKind, width: Width) -> TrainSettings {
    let mut settings = settings(kind, 3);
    settings.model.widths[1] = 128;
    settings.model.widths[2] = 128;
    settings.exchange = ExchangePolicy::uniform(RowCodec::new(width));
    settings
}

#[test]
fn bytes_follow_from_the_plan() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 4);
    for setting in [Setting::Transductive, Setting::Inductive] {
        let roles = data.split.roles();
        let is_member = |v: usize| setting == Setting::Transductive || roles[v] == Role::Train;
        let (n_rows, n_pairs) = count_halo(&data, &assignment, is_member);
        let inputs = inputs(&data, &assignment, setting);
        // SAGE: two products, bias, gain and offset; the last layer without the latter two.
        let layer = |n_in: u64, n_out: u64| 2 * n_in * n_out + n_out;
        let n_weights = layer(6, 128) + layer(128, 128) + layer(128, 4) + 4 * 128;
        // Layers 1 and 2 of three exchange 128 columns, forward and backward.
        let n_exchanges = 2 * 2;
        for (width, bits) in [(Width::F32, 32), (Width::F16, 16), (Width::Four, 4), (Width::One, 1)]
        {
            let (records, outcome) =
                run(&inputs, &wide_settings(ModelKind::Sage, width), 1).expect("a run");
            for record in &records {
                assert_eq!(record.payload_bytes, n_exchanges * n_rows * 128 * bits / 8);
                let metadata = if bits < 16 { 4 } else { 0 };
                assert_eq!(record.metadata_bytes, n_exchanges * n_rows * metadata);
                assert_eq!(record.messages, n_exchanges * n_pairs);
                assert_eq!(record.reduce_bytes, 2 * 3 * 4 * n_weights, "four ranks, both ways");
            }
            assert_eq!(outcome.fp32_bytes_per_epoch, n_exchanges * n_rows * 128 * 4);
            assert_eq!(records[0].payload_bytes * 32, outcome.fp32_bytes_per_epoch * bits);
        }
    }
}

/// Evaluation is counted apart: two exchanges forward, in full precision, on the whole graph.
#[test]
fn evaluation_bytes_are_counted_apart() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 4);
    let (n_rows, _) = count_halo(&data, &assignment, |_| true);
    for setting in [Setting::Transductive, Setting::Inductive] {
        let mut settings = wide_settings(ModelKind::Gcn, Width::One);
        settings.n_epochs = 12;
        let (records, outcome) = run(&inputs(&data, &assignment, setting), &settings, 1).expect("");
        let evaluated: Vec<u32> =
            records.iter().filter(|r| r.scores.is_some()).map(|r| r.epoch).collect();
        assert_eq!(evaluated, [4, 9, 11], "every fifth epoch and the last");
        let once = 2 * n_rows * 128 * 4;
        assert!(records.iter().all(|r| r.eval_bytes == r.scores.map_or(0, |_| once)));
        assert_eq!(outcome.eval_bytes, 3 * once);
        let setup = n_rows * crate::fixture::N_FEATURES as u64 * 4;
        let (train_rows, _) =
            count_halo(&data, &assignment, |v| data.split.roles()[v] == Role::Train);
        let more = if setting == Setting::Inductive { train_rows * 6 * 4 } else { 0 };
        assert_eq!(outcome.setup_bytes, setup + more, "raw features once a graph");
    }
}

#[test]
fn metadata_is_as_wide_as_its_type() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 2);
    let (n_rows, _) = count_halo(&data, &assignment, |_| true);
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let types = [(MetadataType::F32, 8), (MetadataType::Bf16, 4), (MetadataType::F16, 4)];
    for (metadata, bytes) in types {
        let mut settings = settings(ModelKind::Gat, 1);
        settings.exchange = ExchangePolicy::uniform(RowCodec { width: Width::Two, metadata });
        let (records, _) = run(&inputs, &settings, 1).expect("a run");
        assert_eq!(records[0].metadata_bytes, 4 * n_rows * bytes);
        assert_eq!(records[0].payload_bytes, 4 * n_rows * 2, "8 columns at 2 bits");
    }
}

#[test]
fn one_part_sends_nothing() {
    let data = dataset(Shape::default());
    let assignment = Assignment::new(1, vec![0; data.n_nodes()]).expect("one part");
    let inputs = inputs(&data, &assignment, Setting::Transductive);
    let (records, outcome) =
        run(&inputs, &wide_settings(ModelKind::Sage, Width::One), 1).expect("");
    assert_eq!((records[0].payload_bytes, records[0].messages), (0, 0));
    assert_eq!((outcome.fp32_bytes_per_epoch, outcome.eval_bytes, outcome.setup_bytes), (0, 0, 0));
}
