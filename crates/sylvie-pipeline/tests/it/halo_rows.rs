//! Halo rows that stay packed, and gathered rows that are rounded.

use sylvie_comm::{Communicator, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{ModelKind, NormKind};
use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_pipeline::{
    Directions, EpochRecord, ExchangePolicy, HaloRows, Instruments, Memory, Preset, RankInput,
    Scope, TrainError, TrainSettings, train,
};
use sylvie_tensor::Gather;

use crate::fixture::{
    NoClock, Setting, Shape, dataset, inputs, losses, random_parts, run, settings,
};
use crate::plain_codec::{Fault, PlainWire};

fn parts(n_parts: u32, setting: Setting) -> Vec<RankInput> {
    let data = dataset(Shape::default());
    inputs(&data, &random_parts(&data, n_parts), setting)
}

fn of_width(width: Width) -> ExchangePolicy {
    ExchangePolicy::uniform(RowCodec::new(width))
}

/// Policies of all kinds that keep rows packed.
fn various() -> Vec<ExchangePolicy> {
    let (one_bit, stale) = (Preset::SylvieS.policy(), Preset::SylvieA.policy());
    let mixed = [Width::F32, Width::Two].map(RowCodec::new).to_vec();
    let exact = RowCodec { width: Width::One, metadata: MetadataType::F32 };
    let smoothed = ExchangePolicy { smooth: Some(Directions::Gradients), ..stale.clone() };
    vec![
        ExchangePolicy::uniform(exact),
        of_width(Width::Two),
        of_width(Width::Four),
        of_width(Width::Eight),
        ExchangePolicy { forward: mixed, ..one_bit.clone() },
        ExchangePolicy { overlap: true, ..one_bit.clone() },
        ExchangePolicy { memory: Memory::Sequential, ..one_bit.clone() },
        ExchangePolicy { scope: Scope::All, ..one_bit },
        ExchangePolicy { staleness: 3, ..stale },
        smoothed,
    ]
}

/// Networks that sum rows first, and one whose last layers narrow so much that they multiply first.
fn networks(policy: &ExchangePolicy) -> Vec<TrainSettings> {
    let mut all = Vec::new();
    for kind in [ModelKind::Gcn, ModelKind::Sage] {
        for (hidden, dropout) in [(8, 0.5), (70, 0.0), (70, 0.3)] {
            let mut settings = settings(kind, 5);
            settings.model.widths[1..3].fill(hidden);
            settings.model.dropout = dropout;
            settings.exchange = policy.clone();
            all.push(settings);
        }
    }
    all
}

#[test]
fn packed_halo_rows_change_no_bit() {
    let inputs = parts(3, Setting::Inductive);
    for policy in various() {
        for mut settings in networks(&policy) {
            settings.exchange.halo = HaloRows::F32;
            let expected = run(&inputs, &settings, 1).expect("a run");
            for (halo, n_threads) in
                [(HaloRows::Packed, 1), (HaloRows::Packed, 2), (HaloRows::Auto, 1)]
            {
                settings.exchange.halo = halo;
                let found = run(&inputs, &settings, n_threads).expect("a run");
                assert!(found == expected, "{:?}", settings.exchange);
            }
        }
    }
}

#[test]
fn rows_without_packed_bits_are_refused() {
    let model = |kind| settings(kind, 1).model;
    let packed = |policy: ExchangePolicy| ExchangePolicy { halo: HaloRows::Packed, ..policy };
    let smooth = Some(Directions::Both);
    let sampled = ExchangePolicy { boundary_sampling: Some(0.5), ..Preset::SylvieS.policy() };
    for (policy, kind, expected) in [
        (Preset::SylvieS.policy(), ModelKind::Gat, "--halo packed cannot be combined with --model"),
        (sampled, ModelKind::Sage, "--halo packed cannot be combined with --boundary-sampling"),
        (
            ExchangePolicy { smooth, ..Preset::SylvieA.policy() },
            ModelKind::Gcn,
            "--halo packed cannot be combined with --smooth",
        ),
    ] {
        assert_eq!(policy.check(&model(kind)), Ok(()));
        let found = packed(policy).check(&model(kind)).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}");
    }
    // Rows in full precision have nothing packed, and are let through.
    assert_eq!(packed(Preset::Vanilla.policy()).check(&model(ModelKind::Sage)), Ok(()));
}

/// One part: two would have too few edges a row for the sums to take bf16.
fn whole() -> Vec<RankInput> {
    parts(1, Setting::Transductive)
}

#[test]
fn gathered_bf16_rows_are_near_and_the_same_on_any_threads() {
    let inputs = whole();
    for kind in [ModelKind::Gcn, ModelKind::Sage] {
        for norm in [NormKind::Layer, NormKind::None] {
            let mut settings = settings(kind, 10);
            settings.model.norm = norm;
            let exact = losses(&run(&inputs, &settings, 1).expect("a run").0);
            let settings = TrainSettings { gather: Gather::Bf16, ..settings };
            let found = run(&inputs, &settings, 1).expect("a run");
            assert_eq!(run(&inputs, &settings, 3).expect("a run"), found);
            let found = losses(&found.0);
            assert_ne!(found, exact, "{kind}");
            for (found, exact) in found.iter().zip(&exact) {
                assert!((found - exact).abs() < 0.02 * exact, "{kind}: {found}, f32 {exact}");
            }
        }
    }
}

/// Evaluations gather f32: before the weights change, they do not tell the difference.
#[test]
fn evaluations_gather_f32() {
    let inputs = whole();
    let still = |gather| {
        let settings = TrainSettings { gather, learning_rate: 0.0, ..settings(ModelKind::Gcn, 1) };
        run(&inputs, &settings, 1).expect("a run")
    };
    let ((records, exact), (rounded_records, rounded)) = (still(Gather::F32), still(Gather::Bf16));
    assert_eq!(exact, rounded);
    assert_ne!(losses(&records), losses(&rounded_records));
}

#[test]
fn a_backend_without_such_sums_says_so() {
    let inputs = parts(2, Setting::Transductive);
    let settings = TrainSettings { gather: Gather::Bf16, ..settings(ModelKind::Gcn, 1) };
    let ranks = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let (backend, input) = (PlainWire::new(Fault::None), &inputs[comm.rank()]);
        let mut observe = |_: &EpochRecord| Ok(());
        let instruments = Instruments::clock(&NoClock);
        let ended = train(&backend, comm, input, &settings, instruments, &mut observe);
        let error = ended.expect_err("no sums of bf16 rows");
        assert!(matches!(error, TrainError::Gather { gather: Gather::Bf16 }), "{error}");
        Ok::<_, TrainError>(error.to_string())
    });
    let expected = "sums over neighbours cannot gather bf16 rows on this machine; take f32";
    assert_eq!(ranks.expect("both ranks"), [expected; 2]);
}
