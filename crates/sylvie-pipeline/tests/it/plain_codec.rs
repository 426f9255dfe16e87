//! Training with the codec as it is used against training with the specification's: the same bytes.

mod backend;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sylvie_comm::{Communicator, Purpose, Tag, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::ModelKind;
use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_pipeline::{
    Directions, EpochRecord, ExchangePolicy, Instruments, Memory, Preset, RankInput, TrainError,
    TrainSettings, train,
};
use sylvie_tensor::{CpuBackend, Wire};

pub(crate) use self::backend::{Fault, PlainWire};
use crate::fixture::{
    N_CLASSES, N_FEATURES, NoClock, Setting, Shape, dataset, inputs, random_parts, settings,
};
use crate::recording::Recording;

const KINDS: [ModelKind; 3] = [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat];
const N_RANKS: u32 = 3;
const N_EPOCHS: u32 = 3;
/// Rows that fill their last byte at every width, and rows that leave some of it at 1, 2 and 4 bits.
const HIDDEN: [usize; 3] = [24, 33, 69];

/// Everything that a run makes: what each rank sends and brings to each sum of weight gradients, in its
/// order; the losses; the weights after the last epoch.
struct Trace {
    sent: Vec<Vec<(Tag, usize, Vec<u8>)>>,
    reduced: Vec<Vec<Vec<f32>>>,
    losses: Vec<f64>,
    weights: Vec<Vec<f32>>,
}

fn trace<B: Wire<Bytes = Vec<u8>>>(
    backend: impl Fn() -> B + Sync,
    inputs: &[RankInput],
    settings: &TrainSettings,
) -> Trace {
    let ranks = run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<_>| {
        let mut comm = Recording::new(comm);
        let input = &inputs[comm.rank()];
        let mut losses = Vec::new();
        let mut observe = |record: &EpochRecord| {
            losses.push(record.loss);
            Ok(())
        };
        let instruments = Instruments::clock(&NoClock);
        let outcome = train(&backend(), &mut comm, input, settings, instruments, &mut observe)?;
        Ok::<_, TrainError>((comm.sent, comm.reduced, losses, outcome))
    });
    let mut trace = Trace { sent: vec![], reduced: vec![], losses: vec![], weights: vec![] };
    for (sent, reduced, losses, outcome) in ranks.expect("a run") {
        // The last epoch alone is evaluated, so that the best weights are the last ones.
        assert_eq!(outcome.best_epoch + 1, settings.n_epochs);
        trace.sent.push(sent);
        trace.reduced.push(reduced);
        (trace.losses, trace.weights) = (losses, outcome.weights);
    }
    trace
}

fn place_of_difference<T: Copy + PartialEq>(a: &[T], b: &[T]) -> Option<usize> {
    let differs = |at: &usize| a.get(*at) != b.get(*at);
    (0..a.len().max(b.len())).find(differs)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// What two runs have not in common, a line for each kind of it; empty where they are the same.
fn differences(a: &Trace, b: &Trace) -> String {
    let mut found = String::new();
    let mut note = |what: std::fmt::Arguments<'_>| writeln!(found, "{what}").expect("memory");
    'messages: for (rank, (a, b)) in a.sent.iter().zip(&b.sent).enumerate() {
        if a.len() != b.len() {
            note(format_args!("messages: rank {rank} sends {} and {}", a.len(), b.len()));
        }
        for ((tag, peer, bytes), (other_tag, other_peer, other)) in a.iter().zip(b) {
            let at = place_of_difference(bytes, other);
            if (tag, peer) != (other_tag, other_peer) || at.is_some() {
                let other = format!("{other_tag} to {other_peer}");
                note(format_args!("messages: {tag} from {rank} to {peer} ({other}), byte {at:?}"));
                break 'messages;
            }
        }
    }
    for (rank, (a, b)) in a.reduced.iter().zip(&b.reduced).enumerate() {
        let at = place_of_difference(&bits(&a.concat()), &bits(&b.concat()));
        if let Some(at) = at {
            note(format_args!("gradients: rank {rank}, value {at}"));
        }
    }
    let loss_bits = |trace: &Trace| trace.losses.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    if let Some(epoch) = place_of_difference(&loss_bits(a), &loss_bits(b)) {
        note(format_args!("losses: epoch {epoch}"));
    }
    if let Some(at) = place_of_difference(&bits(&a.weights.concat()), &bits(&b.weights.concat())) {
        note(format_args!("weights: value {at}"));
    }
    found
}

fn parts(n_nodes: u32) -> Vec<RankInput> {
    let data = dataset(Shape { n_nodes, ..Shape::default() });
    inputs(&data, &random_parts(&data, N_RANKS), Setting::Transductive)
}

fn with(kind: ModelKind, exchange: ExchangePolicy) -> TrainSettings {
    let mut settings = settings(kind, N_EPOCHS);
    settings.eval_every = N_EPOCHS;
    settings.model.widths = [&[N_FEATURES], &HIDDEN[..], &[N_CLASSES as usize]].concat();
    settings.model.n_heads = 3;
    assert!(settings.model.dropout > 0.0);
    TrainSettings { exchange, ..settings }
}

fn codecs() -> Vec<RowCodec> {
    let mut codecs: Vec<_> = Width::ALL.into_iter().map(RowCodec::new).collect();
    let types = MetadataType::ALL.into_iter().filter(|&metadata| metadata != Default::default());
    codecs.extend(types.map(|metadata| RowCodec { width: Width::One, metadata }));
    codecs
}

fn coded(preset: Preset, codec: RowCodec) -> ExchangePolicy {
    ExchangePolicy { forward: vec![codec], backward: vec![codec], ..preset.policy() }
}

/// Trains by both codecs; returns what they have in common.
fn check(inputs: &[RankInput], settings: &TrainSettings, n_threads: usize) -> Trace {
    let fast = trace(|| CpuBackend::new(n_threads), inputs, settings);
    let plain = trace(|| PlainWire::new(Fault::None), inputs, settings);
    let found = differences(&fast, &plain);
    assert!(found.is_empty(), "{}, {:?}:\n{found}", settings.model.kind, settings.exchange);
    fast
}

#[test]
fn every_codec_trains_to_the_bytes_of_the_specification() {
    let inputs = parts(90);
    for kind in KINDS {
        for preset in [Preset::SylvieS, Preset::SylvieA] {
            for codec in codecs() {
                let trace = check(&inputs, &with(kind, coded(preset, codec)), 1);
                check_lengths(&trace, codec);
            }
        }
    }
}

/// Training messages of every exchanged width, in both directions, each of whole rows.
fn check_lengths(trace: &Trace, codec: RowCodec) {
    let mut found = BTreeSet::new();
    for (tag, _, bytes) in trace.sent.iter().flatten() {
        if tag.purpose == Purpose::Training {
            let n_cols = HIDDEN[usize::from(tag.layer) - 1];
            assert!(bytes.len().is_multiple_of(codec.message_bytes(1, n_cols)), "{tag}");
            found.insert((tag.epoch, tag.layer, tag.pass));
        }
    }
    assert_eq!(found.len(), N_EPOCHS as usize * HIDDEN.len() * 2);
}

/// Rows that are sampled, averaged, fetched one part at a time, or coded where they stay; codecs that
/// differ by layer and pass.
#[test]
fn every_way_of_exchanging_gives_the_bytes_of_the_specification() {
    let inputs = parts(90);
    let (sync, stale) = (Preset::SylvieS.policy(), Preset::SylvieA.policy());
    let by_layer = |widths: [Width; 3]| widths.map(RowCodec::new).to_vec();
    let policies = [
        ExchangePolicy { staleness: 2, ..stale.clone() },
        ExchangePolicy { smooth: Some(Directions::Both), ..stale.clone() },
        ExchangePolicy { boundary_sampling: Some(0.4), ..stale },
        ExchangePolicy { boundary_sampling: Some(0.4), overlap: true, ..sync.clone() },
        ExchangePolicy { memory: Memory::Sequential, ..sync.clone() },
        Preset::QuantizeAll.policy(),
        ExchangePolicy {
            forward: by_layer([Width::One, Width::F16, Width::Four]),
            backward: by_layer([Width::Eight, Width::Two, Width::Bf16]),
            ..sync
        },
    ];
    for policy in policies {
        for kind in KINDS {
            check(&inputs, &with(kind, policy.clone()), 1);
        }
    }
}

/// Messages so large that two threads share each.
#[test]
fn messages_cut_among_threads_are_those_of_the_specification() {
    let (inputs, n_hidden) = (parts(2100), 131);
    for width in [Width::One, Width::F32] {
        let mut settings = with(ModelKind::Sage, coded(Preset::SylvieS, RowCodec::new(width)));
        settings.model.widths = vec![N_FEATURES, n_hidden, N_CLASSES as usize];
        let trace = check(&inputs, &settings, 2);
        // A thread takes 2^16 values at once.
        let shared = RowCodec::new(width).message_bytes((1 << 16) / n_hidden + 8, n_hidden);
        let mut in_training =
            trace.sent.iter().flatten().filter(|(tag, ..)| tag.purpose == Purpose::Training);
        assert!(in_training.all(|(.., bytes)| bytes.len() > shared), "messages are too small");
    }
}

/// A codec with another seed, one that rounds a value of a message to the other level, and one whose
/// decoded values are a float off at the end of a row: none passes, whatever the model and the schedule.
#[test]
fn another_rounding_shows() {
    let inputs = parts(90);
    for kind in KINDS {
        for preset in [Preset::SylvieS, Preset::SylvieA] {
            let settings = with(kind, preset.policy());
            let fast = trace(|| CpuBackend::new(1), &inputs, &settings);
            for fault in [Fault::OtherSeed, Fault::OtherCode, Fault::OtherFloat] {
                let other = trace(|| PlainWire::new(fault), &inputs, &settings);
                let found = differences(&fast, &other);
                let what = format!("{kind}, {preset}, {fault:?}:\n{found}");
                // What is decoded otherwise need not be coded otherwise at one bit.
                if fault != Fault::OtherFloat {
                    assert!(found.starts_with("messages: training epoch 0 layer 1"), "{what}");
                }
                for line in ["gradients:", "losses:", "weights:"] {
                    assert!(found.contains(line), "{line} {what}");
                }
            }
        }
    }
}

/// Another seed is no fault where nothing is drawn.
#[test]
fn floating_point_widths_draw_nothing() {
    let inputs = parts(90);
    for width in [Width::F16, Width::Bf16, Width::F32] {
        let settings = with(ModelKind::Sage, coded(Preset::SylvieS, RowCodec::new(width)));
        let fast = trace(|| CpuBackend::new(1), &inputs, &settings);
        let other = trace(|| PlainWire::new(Fault::OtherSeed), &inputs, &settings);
        assert_eq!(differences(&fast, &other), "", "{width}");
    }
}
