//! The plan of an epoch as text; presets.

use sylvie_gnn::ModelKind;
use sylvie_lowbit::Width;
use sylvie_pipeline::{Preset, plan_epoch, plan_forward};

use crate::fixture::settings;

fn text(steps: &[sylvie_pipeline::Step]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_synchronous_epoch() {
    let mut model = settings(ModelKind::Sage, 1).model;
    assert_eq!(
        text(&plan_epoch(&model)),
        "compute forward 0; \
         start forward 1; finish forward 1; compute forward 1; \
         start forward 2; finish forward 2; compute forward 2; \
         loss; \
         compute backward 2; start backward 2; finish backward 2; \
         compute backward 1; start backward 1; finish backward 1; \
         compute backward 0; reduce; update"
    );
    model.n_linear = 2;
    assert_eq!(
        text(&plan_epoch(&model)),
        "compute forward 0; compute forward 1; compute forward 2; loss; \
         compute backward 2; compute backward 1; compute backward 0; reduce; update",
        "linear layers exchange nothing"
    );
    model.n_linear = 1;
    assert_eq!(
        text(&plan_forward(&model)),
        "compute forward 0; start forward 1; finish forward 1; compute forward 1; compute forward 2"
    );
}

#[test]
fn presets_are_policies() {
    let vanilla = "vanilla".parse::<Preset>().expect("a preset").policy();
    assert_eq!((vanilla.forward.width, vanilla.backward.width), (Width::F32, Width::F32));
    let sylvie = "sylvie-s".parse::<Preset>().expect("a preset").policy();
    assert_eq!((sylvie.forward.width, sylvie.backward.width), (Width::One, Width::One));
    assert_eq!(Preset::SylvieS.to_string(), "sylvie-s");
    let unknown = "sylvie".parse::<Preset>().unwrap_err().to_string();
    assert_eq!(unknown, "unknown preset 'sylvie', expected one of vanilla, sylvie-s");
}
