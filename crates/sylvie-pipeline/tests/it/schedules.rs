//! The plan of an epoch as text; presets; what cannot be combined.

use sylvie_gnn::ModelKind;
use sylvie_lowbit::{RowCodec, Width};
use sylvie_pipeline::{
    Directions, ExchangePolicy, Memory, PolicyError, Preset, Schedule, Scope, plan_epoch,
    plan_forward,
};
use sylvie_random::Pass;

use crate::fixture::settings;

fn text(steps: &[sylvie_pipeline::Step]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_synchronous_epoch() {
    let mut model = settings(ModelKind::Sage, 1).model;
    let policy = Preset::SylvieS.policy();
    assert_eq!(
        text(&plan_epoch(&model, &policy, 4, 0)),
        "begin forward 0; finish forward 0; \
         start forward 1; wait forward 1; begin forward 1; halo forward 1; finish forward 1; \
         start forward 2; wait forward 2; begin forward 2; halo forward 2; finish forward 2; \
         loss; \
         begin backward 2; halo backward 2; finish backward 2; start backward 2; reduce 2; \
         wait backward 2; add 2; \
         begin backward 1; halo backward 1; finish backward 1; start backward 1; reduce 1; \
         wait backward 1; add 1; \
         begin backward 0; finish backward 0; reduce 0; collect; update"
    );
    model.n_linear = 2;
    assert_eq!(
        text(&plan_epoch(&model, &policy, 4, 0)),
        "begin forward 0; finish forward 0; begin forward 1; finish forward 1; \
         begin forward 2; finish forward 2; loss; \
         begin backward 2; finish backward 2; reduce 2; begin backward 1; finish backward 1; \
         reduce 1; begin backward 0; finish backward 0; reduce 0; collect; update",
        "linear layers exchange nothing"
    );
    model.n_linear = 1;
    assert_eq!(
        text(&plan_forward(&model, Memory::All, 4)),
        "begin forward 0; finish forward 0; start forward 1; wait forward 1; begin forward 1; \
         halo forward 1; finish forward 1; begin forward 2; finish forward 2"
    );
}

#[test]
fn an_epoch_that_overlaps() {
    let mut model = settings(ModelKind::Gcn, 1).model;
    model.widths.remove(1);
    let policy = ExchangePolicy { overlap: true, ..Preset::SylvieS.policy() };
    assert_eq!(
        text(&plan_epoch(&model, &policy, 4, 7)),
        "begin forward 0; finish forward 0; \
         start forward 1; begin forward 1; wait forward 1; halo forward 1; finish forward 1; \
         loss; \
         begin backward 1; halo backward 1; start backward 1; finish backward 1; reduce 1; \
         wait backward 1; add 1; \
         begin backward 0; finish backward 0; reduce 0; collect; update"
    );
}

#[test]
fn asynchronous_epochs_with_and_without_a_bound() {
    let mut model = settings(ModelKind::Gcn, 1).model;
    model.widths.remove(1);
    let stale = "begin forward 0; finish forward 0; \
         start forward 1; use forward 1; begin forward 1; halo forward 1; finish forward 1; \
         loss; \
         begin backward 1; halo backward 1; finish backward 1; reduce 1; use backward 1; add 1; \
         begin backward 0; finish backward 0; reduce 0; leave backward 1; collect; update";
    let mut policy = Preset::SylvieA.policy();
    for epoch in [0, 1, 2, 100] {
        assert_eq!(text(&plan_epoch(&model, &policy, 4, epoch)), stale);
    }
    policy.staleness = 3;
    for epoch in [0, 1, 3, 4, 6] {
        assert_eq!(text(&plan_epoch(&model, &policy, 4, epoch)), stale);
    }
    let synchronous = "drain forward 1; drain backward 1; \
         begin forward 0; finish forward 0; \
         start forward 1; wait forward 1, keep; begin forward 1; halo forward 1; \
         finish forward 1; loss; \
         begin backward 1; halo backward 1; finish backward 1; start backward 1; reduce 1; \
         wait backward 1, keep; add 1; \
         begin backward 0; finish backward 0; reduce 0; collect; update";
    for epoch in [2, 5, 8] {
        assert_eq!(text(&plan_epoch(&model, &policy, 4, epoch)), synchronous);
    }
    policy.staleness_scope = Directions::Features;
    let half = text(&plan_epoch(&model, &policy, 4, 2));
    assert!(half.starts_with("drain forward 1; begin forward 0"), "{half}");
    assert!(half.contains("wait forward 1, keep") && half.contains("use backward 1"), "{half}");
    policy.staleness_scope = Directions::Gradients;
    let half = text(&plan_epoch(&model, &policy, 4, 2));
    assert!(half.starts_with("drain backward 1; begin forward 0"), "{half}");
    assert!(half.contains("use forward 1") && half.contains("wait backward 1, keep"), "{half}");
}

#[test]
fn a_bound_of_one_is_the_synchronous_plan() {
    let model = settings(ModelKind::Gat, 1).model;
    let bounded = ExchangePolicy { staleness: 1, ..Preset::SylvieA.policy() };
    for epoch in 0..4 {
        let expected = text(&plan_epoch(&model, &Preset::SylvieS.policy(), 3, epoch));
        assert_eq!(text(&plan_epoch(&model, &bounded, 3, epoch)), expected);
    }
}

#[test]
fn one_part_after_the_other() {
    let mut model = settings(ModelKind::Sage, 1).model;
    model.widths.remove(1);
    let policy = Preset::Sar.policy();
    let forward = "begin forward 0; finish forward 0; begin forward 1; \
         start forward 1 of part 0; wait forward 1 of part 0; halo forward 1 of part 0; \
         start forward 1 of part 1; wait forward 1 of part 1; halo forward 1 of part 1; \
         finish forward 1";
    assert_eq!(text(&plan_forward(&model, Memory::Sequential, 2)), forward);
    let plan = |model: &sylvie_gnn::ModelConfig| text(&plan_epoch(model, &policy, 2, 0));
    let sums = format!(
        "{forward}; loss; begin backward 1; \
         halo backward 1 of part 0; start backward 1 of part 0; wait backward 1 of part 0; \
         halo backward 1 of part 1; start backward 1 of part 1; wait backward 1 of part 1; \
         finish backward 1; reduce 1; add 1; \
         begin backward 0; finish backward 0; reduce 0; collect; update"
    );
    assert_eq!(plan(&model), sums);
    model.kind = ModelKind::Gat;
    let again = plan(&model);
    let fetched = "begin backward 1; start forward 1 of part 0; wait forward 1 of part 0; \
         halo backward 1 of part 0; start backward 1 of part 0; wait backward 1 of part 0; ";
    assert!(again.contains(fetched), "attention needs the rows once more: {again}");
}

#[test]
fn presets_are_policies() {
    let widths = |name: &str| {
        let policy = name.parse::<Preset>().expect("a preset").policy();
        (policy.codec(1, Pass::Forward).width, policy.codec(3, Pass::Backward).width)
    };
    assert_eq!(widths("vanilla"), (Width::F32, Width::F32));
    assert_eq!(widths("sylvie-s"), (Width::One, Width::One));
    assert_eq!(widths("pipegcn"), (Width::F32, Width::F32));
    let policy = |preset: Preset| preset.policy();
    assert_eq!(policy(Preset::SylvieA).schedule, Schedule::Async);
    assert_eq!(policy(Preset::PipeGcn).schedule, Schedule::Async);
    assert_eq!(policy(Preset::BnsGcn).boundary_sampling, Some(0.1));
    assert_eq!(policy(Preset::Sar).memory, Memory::Sequential);
    assert_eq!(policy(Preset::QuantizeAll).scope, Scope::All);
    let model = settings(ModelKind::Gat, 1).model;
    for preset in Preset::ALL {
        assert_eq!(preset.to_string().parse(), Ok(preset));
        preset.policy().check(&model).expect("a preset can be used");
    }
    let unknown = "sylvie".parse::<Preset>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "unknown preset 'sylvie', expected one of vanilla, sylvie-s, sylvie-a, pipegcn, bns-gcn, \
         sar, quantize-all"
    );
}

#[test]
fn a_codec_for_each_exchanged_layer() {
    let model = settings(ModelKind::Sage, 1).model;
    let [four, two] = [Width::Four, Width::Two].map(RowCodec::new);
    let mut policy = ExchangePolicy { forward: vec![four, two], ..Preset::SylvieS.policy() };
    policy.check(&model).expect("two layers of three are exchanged");
    assert_eq!(policy.codec(1, Pass::Forward), four);
    assert_eq!(policy.codec(2, Pass::Forward), two);
    assert_eq!(policy.codec(2, Pass::Backward).width, Width::One);
    policy.forward.push(two);
    let error = policy.check(&model).unwrap_err();
    assert_eq!(error, PolicyError::Codecs { flag: "bits-forward", found: 3, expected: 2 });
}

#[test]
fn what_cannot_be_combined_is_refused_with_the_reason() {
    let model = settings(ModelKind::Sage, 1).model;
    let sync = Preset::SylvieS.policy();
    let stale = Preset::SylvieA.policy();
    let cases = [
        (ExchangePolicy { staleness: 2, ..sync.clone() }, "--staleness", "--schedule sync"),
        (
            ExchangePolicy { staleness_scope: Directions::Features, ..sync.clone() },
            "--staleness-scope",
            "--schedule sync",
        ),
        (
            ExchangePolicy { staleness_scope: Directions::Features, ..stale.clone() },
            "--staleness-scope",
            "--staleness 0",
        ),
        (
            ExchangePolicy { memory: Memory::Sequential, ..stale.clone() },
            "--memory sequential",
            "--schedule async",
        ),
        (
            ExchangePolicy { memory: Memory::Sequential, overlap: true, ..sync.clone() },
            "--memory sequential",
            "--overlap",
        ),
        (
            ExchangePolicy { smooth: Some(Directions::Both), ..sync.clone() },
            "--smooth",
            "--schedule sync",
        ),
        (
            ExchangePolicy {
                smooth: Some(Directions::Both),
                boundary_sampling: Some(0.5),
                ..stale.clone()
            },
            "--smooth",
            "--boundary-sampling",
        ),
        (ExchangePolicy { overlap: true, ..stale.clone() }, "--overlap", "--schedule async"),
    ];
    for (policy, expected, other) in cases {
        match policy.check(&model).unwrap_err() {
            PolicyError::Conflict { what, with, reason } => {
                assert_eq!((what, with), (expected, other));
                assert!(!reason.is_empty());
            }
            error => panic!("{expected}, {other}: {error}"),
        }
    }
    for p in [0.0, -0.1, 1.5, f64::NAN] {
        let policy = ExchangePolicy { boundary_sampling: Some(p), ..sync.clone() };
        assert!(matches!(policy.check(&model), Err(PolicyError::Sampling { .. })), "{p}");
    }
    let policy = ExchangePolicy { smooth: Some(Directions::Both), smooth_decay: 1.0, ..stale };
    assert!(matches!(policy.check(&model), Err(PolicyError::Decay { .. })));
}
