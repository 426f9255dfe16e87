//! What policies have in common, and what makes each of them what it is.

use sylvie_comm::{Communicator, LinkModel, ThreadOptions, Threads, run_ranks};
use sylvie_conformance::Jittered;
use sylvie_gnn::ModelKind;
use sylvie_graph::Dataset;
use sylvie_lowbit::{RowCodec, Width};
use sylvie_pipeline::{
    Directions, EpochRecord, ExchangePolicy, Instruments, Memory, Preset, RankInput, Schedule,
    Scope, TrainError, TrainOutcome, TrainSettings, train,
};
use sylvie_tensor::CpuBackend;

use crate::fixture::{
    NoClock, Setting, Shape, dataset, inputs, losses, random_parts, run, settings,
};

pub(crate) const KINDS: [ModelKind; 3] = [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat];

fn parts(n_parts: u32) -> (Dataset, Vec<RankInput>) {
    let data = dataset(Shape::default());
    let inputs = inputs(&data, &random_parts(&data, n_parts), Setting::Transductive);
    (data, inputs)
}

fn with(kind: ModelKind, n_epochs: u32, exchange: ExchangePolicy) -> TrainSettings {
    TrainSettings { exchange, ..settings(kind, n_epochs) }
}

fn losses_of(inputs: &[RankInput], settings: &TrainSettings) -> Vec<f64> {
    losses(&run(inputs, settings, 1).expect("a run").0)
}

/// Everything that a run gives but its schedule's own bytes.
fn outcome_of(inputs: &[RankInput], settings: &TrainSettings) -> (Vec<f64>, Vec<Vec<f32>>) {
    let (records, outcome) = run(inputs, settings, 1).expect("a run");
    (losses(&records), outcome.weights)
}

/// A run whose messages come late by random amounts, or over a modelled link.
fn late_run(
    inputs: &[RankInput],
    settings: &TrainSettings,
    (seed, link): (u64, Option<LinkModel>),
) -> (Vec<EpochRecord>, TrainOutcome) {
    let options = ThreadOptions { link, ..ThreadOptions::default() };
    let mut ranks = run_ranks(inputs.len(), &options, |comm: &mut Threads<Vec<u8>>| {
        let input = &inputs[comm.rank()];
        let mut comm = Jittered::new(comm, seed);
        let mut records = Vec::new();
        let mut observe = |record: &EpochRecord| {
            records.push(record.clone());
            Ok(())
        };
        let instruments = Instruments::clock(&NoClock);
        let backend = CpuBackend::new(1);
        let outcome = train(&backend, &mut comm, input, settings, instruments, &mut observe)?;
        Ok::<_, TrainError>((records, outcome))
    });
    ranks.as_mut().expect("a run").remove(0)
}

/// Policies that differ in every way that a schedule can.
pub(crate) fn various() -> Vec<ExchangePolicy> {
    let stale = Preset::SylvieA.policy();
    let both = Some(Directions::Both);
    vec![
        Preset::SylvieS.policy(),
        stale.clone(),
        ExchangePolicy { staleness: 3, ..stale.clone() },
        ExchangePolicy { staleness: 2, staleness_scope: Directions::Features, ..stale.clone() },
        ExchangePolicy { staleness: 2, staleness_scope: Directions::Gradients, ..stale.clone() },
        ExchangePolicy { smooth: both, staleness: 3, ..Preset::PipeGcn.policy() },
        ExchangePolicy { boundary_sampling: Some(0.4), ..stale.clone() },
        ExchangePolicy { boundary_sampling: Some(0.4), staleness: 3, ..stale },
        Preset::BnsGcn.policy(),
        ExchangePolicy { boundary_sampling: Some(0.3), ..Preset::Sar.policy() },
        ExchangePolicy { overlap: true, ..Preset::QuantizeAll.policy() },
    ]
}

#[test]
fn delays_and_threads_do_not_change_a_bit() {
    let (_, inputs) = parts(3);
    let link: LinkModel = "200Mbps,20us".parse().expect("a link");
    for (number, policy) in various().into_iter().enumerate() {
        let settings = with(KINDS[number % 3], 7, policy);
        let expected = run(&inputs, &settings, 1).expect("a run");
        let found = run(&inputs, &settings, 2).expect("a run");
        assert_eq!(found, expected, "two threads: {:?}", settings.exchange);
        for seed in 0..3 {
            let link = (seed == 2).then_some(link);
            let found = late_run(&inputs, &settings, (seed, link));
            assert_eq!(found, expected, "delayed: {:?}", settings.exchange);
        }
    }
}

#[test]
fn a_bound_of_one_is_the_synchronous_run_bit_for_bit() {
    let (_, inputs) = parts(3);
    for kind in KINDS {
        let sync = with(kind, 8, Preset::SylvieS.policy());
        let mut bounded = with(kind, 8, Preset::SylvieA.policy());
        bounded.exchange.staleness = 1;
        let expected = run(&inputs, &sync, 1).expect("a run");
        assert_eq!(run(&inputs, &bounded, 1).expect("a run"), expected, "{kind}");
        bounded.exchange.smooth = Some(Directions::Both);
        assert_eq!(run(&inputs, &bounded, 1).expect("a run"), expected, "{kind}, smoothed");
    }
}

/// With weights that stay and nothing dropped, rows of the epoch before are those of the epoch, as soon
/// as what is stale has gone through all layers.
#[test]
fn stale_rows_of_weights_that_stay_are_fresh() {
    let (_, inputs) = parts(3);
    for kind in KINDS {
        for exchange in [Preset::PipeGcn.policy(), Preset::SylvieA.policy()] {
            let is_exact = exchange.forward[0].width == Width::F32;
            let mut stale = with(kind, 6, exchange);
            stale.learning_rate = 0.0;
            stale.model.dropout = 0.0;
            let mut sync = stale.clone();
            sync.exchange.schedule = Schedule::Sync;
            let (stale, sync) = (losses_of(&inputs, &stale), losses_of(&inputs, &sync));
            assert_ne!(stale[0], sync[0], "{kind}: zeros in the first epoch");
            if is_exact {
                assert_eq!(stale[3..], sync[3..], "{kind}");
            }
        }
    }
}

#[test]
fn every_epoch_sends_the_same_bytes_early_or_late() {
    let (_, inputs) = parts(4);
    let sync = run(&inputs, &with(ModelKind::Sage, 7, Preset::SylvieS.policy()), 1);
    let sync = sync.expect("a run").0;
    let policy = ExchangePolicy { staleness: 3, ..Preset::SylvieA.policy() };
    let stale = run(&inputs, &with(ModelKind::Sage, 7, policy), 1).expect("a run").0;
    for (stale, sync) in stale.iter().zip(&sync) {
        let counts = |r: &EpochRecord| (r.payload_bytes, r.metadata_bytes, r.messages);
        assert_eq!(counts(stale), counts(sync), "epoch {}", sync.epoch);
        assert_eq!(stale.reduce_bytes, sync.reduce_bytes);
    }
}

#[test]
fn one_part_at_a_time_gives_the_same_bits() {
    let (_, inputs) = parts(4);
    for codec in [Width::F32, Width::One] {
        for kind in KINDS {
            let all = ExchangePolicy::uniform(RowCodec::new(codec));
            let sequential = ExchangePolicy { memory: Memory::Sequential, ..all.clone() };
            let (expected, weights) = outcome_of(&inputs, &with(kind, 6, all));
            let (found, found_weights) = outcome_of(&inputs, &with(kind, 6, sequential));
            assert_eq!(found, expected, "{kind}, {codec:?}");
            assert_eq!(found_weights, weights, "{kind}, {codec:?}");
        }
    }
}

#[test]
fn attention_fetches_rows_again_where_it_keeps_none() {
    let (_, inputs) = parts(4);
    let bytes = |kind, preset: Preset| {
        let record = &run(&inputs, &with(kind, 1, preset.policy()), 1).expect("a run").0[0];
        record.payload_bytes
    };
    for kind in [ModelKind::Gcn, ModelKind::Sage] {
        assert_eq!(bytes(kind, Preset::Sar), bytes(kind, Preset::Vanilla), "{kind}");
    }
    // As many rows forward as backward: one and a half times as many with those fetched again.
    let (sar, vanilla) =
        (bytes(ModelKind::Gat, Preset::Sar), bytes(ModelKind::Gat, Preset::Vanilla));
    assert_eq!(2 * sar, 3 * vanilla);
}

#[test]
fn overlap_gives_the_same_bits() {
    let (_, inputs) = parts(3);
    for kind in KINDS {
        for preset in [Preset::Vanilla, Preset::SylvieS, Preset::BnsGcn, Preset::QuantizeAll] {
            let policy = preset.policy();
            let expected = outcome_of(&inputs, &with(kind, 6, policy.clone()));
            let policy = ExchangePolicy { overlap: true, ..policy };
            assert_eq!(outcome_of(&inputs, &with(kind, 6, policy)), expected, "{kind}, {preset}");
        }
    }
}

#[test]
fn a_sample_of_everything_is_everything() {
    let (_, inputs) = parts(3);
    for kind in KINDS {
        for preset in [Preset::Vanilla, Preset::SylvieS, Preset::SylvieA] {
            let policy = preset.policy();
            let expected = outcome_of(&inputs, &with(kind, 5, policy.clone()));
            let policy = ExchangePolicy { boundary_sampling: Some(1.0), ..policy };
            assert_eq!(outcome_of(&inputs, &with(kind, 5, policy)), expected, "{kind}, {preset}");
        }
    }
}

/// Nothing is sent for rows that are not drawn, both ways; each epoch draws anew.
#[test]
fn a_sample_sends_its_share() {
    let (_, inputs) = parts(3);
    let mut settings = with(ModelKind::Sage, 40, Preset::Vanilla.policy());
    let whole = run(&inputs, &settings, 1).expect("a run").0[0].payload_bytes as f64;
    settings.exchange.boundary_sampling = Some(0.25);
    let records = run(&inputs, &settings, 1).expect("a run").0;
    let bytes: Vec<f64> = records.iter().map(|record| record.payload_bytes as f64).collect();
    let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
    // Rows kept in 40 epochs: binomial; six deviations are far less than a tenth here.
    assert!((mean / whole - 0.25).abs() < 0.025, "{mean} of {whole}");
    assert!(bytes.iter().any(|&other| other != bytes[0]), "{bytes:?}");
    // The same draw each way: with 8 columns in f32 a row is 32 bytes, in 2 layers and 2 passes.
    assert!(bytes.iter().all(|bytes| bytes % 128.0 == 0.0), "{bytes:?}");
}

/// Kept rows weigh 1 / p: with weights that stay, the mean loss over samples is near the exact loss,
/// where halving the halo without a weight is not.
#[test]
fn samples_are_weighted() {
    let (_, inputs) = parts(3);
    let mut settings = with(ModelKind::Sage, 200, Preset::Vanilla.policy());
    settings.learning_rate = 0.0;
    settings.model.dropout = 0.0;
    settings.model.norm = sylvie_gnn::NormKind::None;
    settings.model.widths = vec![crate::fixture::N_FEATURES, 8, 4];
    let exact = losses_of(&inputs, &settings)[0];
    settings.exchange.boundary_sampling = Some(0.9);
    let sampled = losses_of(&inputs, &settings);
    let mean = sampled.iter().sum::<f64>() / sampled.len() as f64;
    let spread = (sampled.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>()
        / sampled.len() as f64)
        .sqrt();
    assert!((mean - exact).abs() < spread, "mean {mean}, deviation {spread}, exact {exact}");
}

#[test]
fn quantize_all_differs_by_its_codec_alone() {
    let (_, inputs) = parts(3);
    let all = |width| ExchangePolicy {
        scope: Scope::All,
        ..ExchangePolicy::uniform(RowCodec::new(width))
    };
    for kind in KINDS {
        let exact = losses_of(&inputs, &with(kind, 5, Preset::Vanilla.policy()));
        assert_eq!(losses_of(&inputs, &with(kind, 5, all(Width::F32))), exact, "{kind}");
        let boundary = losses_of(&inputs, &with(kind, 5, Preset::SylvieS.policy()));
        let one_bit = losses_of(&inputs, &with(kind, 5, all(Width::One)));
        let error = |found: &[f64]| (found[0] - exact[0]).abs();
        assert_ne!(one_bit, boundary, "{kind}");
        let eight = losses_of(&inputs, &with(kind, 5, all(Width::Eight)));
        assert!(error(&eight) < error(&one_bit), "{kind}: {eight:?}, {one_bit:?}");
    }
}

/// On one part nothing crosses the split, but every row is coded all the same.
#[test]
fn quantize_all_needs_no_other_part() {
    let (_, inputs) = parts(1);
    let losses = |preset: Preset| losses_of(&inputs, &with(ModelKind::Sage, 4, preset.policy()));
    assert_eq!(losses(Preset::SylvieS), losses(Preset::Vanilla));
    assert_ne!(losses(Preset::QuantizeAll), losses(Preset::Vanilla));
}

#[test]
fn averages_without_a_past_are_the_rows() {
    let (_, inputs) = parts(3);
    for kind in KINDS {
        for staleness in [0, 3] {
            let plain = ExchangePolicy { staleness, ..Preset::PipeGcn.policy() };
            let smooth = Some(Directions::Both);
            let smoothed = ExchangePolicy { smooth, smooth_decay: 0.0, ..plain.clone() };
            let expected = losses_of(&inputs, &with(kind, 8, plain));
            assert_eq!(losses_of(&inputs, &with(kind, 8, smoothed)), expected, "{kind}");
        }
    }
}

/// With weights that stay, the average of what arrives goes from nothing to the rows themselves, by
/// the factor of its decay.
#[test]
fn averages_come_near_what_arrives() {
    let (_, inputs) = parts(3);
    for (smooth, staleness) in [(Directions::Both, 0), (Directions::Features, 4)] {
        let mut settings = with(ModelKind::Gcn, 80, Preset::PipeGcn.policy());
        settings.learning_rate = 0.0;
        settings.model.dropout = 0.0;
        settings.exchange.staleness = staleness;
        let exact = losses_of(&inputs, &settings)[10];
        settings.exchange.smooth = Some(smooth);
        settings.exchange.smooth_decay = 0.8;
        let found = losses_of(&inputs, &settings);
        let is_stale =
            |epoch: usize| staleness == 0 || !(epoch + 1).is_multiple_of(staleness as usize);
        let stale = |epoch: usize| (found[epoch] - exact).abs();
        assert!(stale(1) > 1e-3 * exact, "the average begins at zero: {found:?}");
        assert!(stale(78) < 1e-5 * exact, "and ends at the rows: {found:?}");
        for (epoch, &loss) in found.iter().enumerate().skip(3) {
            let is_exact = (loss - exact).abs() <= 1e-9 * exact;
            assert!(is_stale(epoch) || is_exact, "a synchronous epoch uses its own rows: {epoch}");
        }
        // Far from zero, the distance shrinks by the decay an epoch.
        let ratio = stale(21) / stale(20);
        assert!(!is_stale(21) || !is_stale(20) || (ratio - 0.8).abs() < 0.05, "{ratio}");
    }
}

/// Each exchanged layer has its own precision, and each pass.
#[test]
fn precision_goes_by_layer_and_pass() {
    let (_, inputs) = parts(3);
    let bytes = |forward: [Width; 2], backward: [Width; 2]| {
        let codecs = |widths: [Width; 2]| widths.map(RowCodec::new).to_vec();
        let policy = ExchangePolicy {
            forward: codecs(forward),
            backward: codecs(backward),
            ..ExchangePolicy::full_precision()
        };
        let record = &run(&inputs, &with(ModelKind::Sage, 1, policy), 1).expect("a run").0[0];
        record.payload_bytes
    };
    // Layers 1 and 2 exchange 8 columns, so a pass of a layer takes as many bytes as its width.
    let eight = Width::Eight;
    let unit = bytes([eight; 2], [eight; 2]) / 32;
    assert_eq!(bytes([Width::Four, eight], [eight; 2]), unit * (4 + 8 + 8 + 8));
    assert_eq!(bytes([eight, Width::Two], [Width::F16, eight]), unit * (8 + 2 + 16 + 8));
    assert_eq!(bytes([Width::F32, Width::One], [eight, Width::Bf16]), unit * (32 + 1 + 8 + 16));
}

/// Bytes of matrices that the ranks hold or keep for later after some epochs: what was in use at once.
fn matrix_bytes(inputs: &[RankInput], settings: &TrainSettings) -> u64 {
    let ranks = run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<_>| {
        let input = &inputs[comm.rank()];
        let backend = CpuBackend::new(1);
        let mut found = 0;
        let mut observe = |_: &EpochRecord| {
            let held = backend.buffer_use();
            found = held.in_use_bytes + held.idle_bytes;
            Ok(())
        };
        let instruments = Instruments::clock(&NoClock);
        train(&backend, comm, input, settings, instruments, &mut observe)?;
        Ok::<_, TrainError>(found)
    });
    ranks.expect("a run").iter().sum()
}

/// Eight parts, whose halos outweigh their own rows: in sequential memory one part's rows are held
/// instead of all seven.
#[test]
fn sequential_memory_holds_one_part() {
    let data = dataset(Shape { n_nodes: 4000, ..Shape::default() });
    let inputs = inputs(&data, &random_parts(&data, 8), Setting::Transductive);
    let sends = inputs.iter().flat_map(|input| &input.training.graph.plan.sends);
    let n_halo: usize = sends.map(|send| send.rows.len()).sum();
    assert!(n_halo > 3 * data.n_nodes(), "{n_halo} halo rows");
    let n_columns = 64;
    let halo_bytes = (n_halo * n_columns * 4) as u64;
    for kind in KINDS {
        let mut settings = with(kind, 3, Preset::Vanilla.policy());
        settings.model.widths = vec![crate::fixture::N_FEATURES, n_columns, n_columns, 4];
        settings.eval_every = 100;
        let all = matrix_bytes(&inputs, &settings);
        settings.exchange = Preset::Sar.policy();
        let one = matrix_bytes(&inputs, &settings);
        // Six sevenths of a layer's halo, less what buffers of like sizes share. Attention keeps of every
        // halo row what it read, its product and its scores for the backward pass.
        let least = if kind == ModelKind::Gat { 3.0 } else { 0.6 };
        let saved = (all - one) as f64 / halo_bytes as f64;
        assert!(saved > least, "{kind}: {all} and {one} bytes, {saved} of the halo's");
    }
}

/// Rows are kept as they were before dropout, which others have anyway: what dropout adds is a copy of the
/// rows of one layer, while it is read.
#[test]
fn dropout_keeps_no_rows() {
    let data = dataset(Shape { n_nodes: 3000, ..Shape::default() });
    let inputs = inputs(&data, &random_parts(&data, 2), Setting::Transductive);
    let row_bytes = 64 * size_of::<f32>() as u64;
    for kind in [ModelKind::Gcn, ModelKind::Sage] {
        let bytes = |dropout: f32| {
            let mut settings = settings(kind, 3);
            settings.model.widths = vec![crate::fixture::N_FEATURES, 64, 64, 64, 4];
            settings.model.dropout = dropout;
            matrix_bytes(&inputs, &settings)
        };
        let (with, without) = (bytes(0.5), bytes(0.0));
        let n_added = (with as f64 - without as f64) / (data.n_nodes() as u64 * row_bytes) as f64;
        assert!(n_added < 2.0, "{kind}: {n_added} matrices, {without} bytes without dropout");
    }
}
