//! The lists of docs/schedules.md are what the planner writes.

use std::fs;
use std::path::Path;

use sylvie_gnn::{ModelConfig, ModelKind};
use sylvie_pipeline::{Directions, ExchangePolicy, Memory, Preset, Step, plan_epoch, plan_forward};

/// Title and steps of a list.
type Listed = (String, Vec<String>);

fn model(kind: ModelKind, n_layers: usize) -> ModelConfig {
    ModelConfig::new(kind, vec![8; n_layers + 1])
}

/// What the page should hold: each title with the plans that it speaks of, which are all the same.
fn expected() -> Vec<Listed> {
    let (two, three) = (model(ModelKind::Sage, 2), model(ModelKind::Sage, 3));
    let presets = |presets: &[Preset]| presets.iter().map(|p| p.policy()).collect::<Vec<_>>();
    let alike = |title: &str, model: &ModelConfig, policies: &[ExchangePolicy], epochs: &[u32]| {
        let plans = policies.iter().flat_map(|policy| {
            assert_eq!(policy.check(model), Ok(()), "{title}");
            epochs.iter().map(|&epoch| words(&plan_epoch(model, policy, 2, epoch)))
        });
        let plans: Vec<_> = plans.collect();
        assert!(plans.windows(2).all(|pair| pair[0] == pair[1]), "{title}");
        (title.to_owned(), plans[0].clone())
    };
    let overlap = ExchangePolicy { overlap: true, ..Preset::SylvieS.policy() };
    let bounded = ExchangePolicy { staleness: 5, ..Preset::SylvieA.policy() };
    let half = ExchangePolicy { staleness_scope: Directions::Features, ..bounded.clone() };
    let smoothed = ExchangePolicy { smooth: Some(Directions::Both), ..Preset::PipeGcn.policy() };
    let synchronous = [Preset::Vanilla, Preset::SylvieS, Preset::BnsGcn, Preset::QuantizeAll];
    let asynchronous = [presets(&[Preset::SylvieA, Preset::PipeGcn]), vec![smoothed]].concat();
    let (every, fifth) = ([0, 1, 4, 100], [4, 9, 14]);
    let sar = presets(&[Preset::Sar]);
    vec![
        alike(
            "vanilla, sylvie-s, bns-gcn, quantize-all: three layers, every epoch",
            &three,
            &presets(&synchronous),
            &every,
        ),
        alike("sylvie-s --overlap: two layers, every epoch", &two, &[overlap], &every),
        alike("sylvie-a, pipegcn: three layers, every epoch", &three, &asynchronous, &every),
        alike("sylvie-a --staleness 5: two layers, epochs 4, 9, 14, ...", &two, &[bounded], &fifth),
        alike(
            "sylvie-a --staleness 5 --staleness-scope features: two layers, epochs 4, 9, 14, ...",
            &two,
            &[half],
            &fifth,
        ),
        alike("sar: two layers, two parts, every epoch", &two, &sar, &every),
        alike(
            "sar, GAT: two layers, two parts, every epoch",
            &model(ModelKind::Gat, 2),
            &sar,
            &every,
        ),
        ("evaluation: two layers".to_owned(), words(&plan_forward(&two, Memory::All, 2))),
    ]
}

fn words(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

/// The lists in a page: blocks whose first line is a title behind a `#`.
fn lists(page: &str) -> Vec<Listed> {
    let blocks = page.split("```text\n# ").skip(1).map(|rest| rest.split("```").next().unwrap());
    let list = |block: &str| {
        let (title, steps) = block.split_once('\n').expect("steps below a title");
        let steps = steps.split(['\n', ';']).map(str::trim).filter(|step| !step.is_empty());
        (title.to_owned(), steps.map(ToOwned::to_owned).collect())
    };
    blocks.map(list).collect()
}

#[test]
fn the_page_shows_what_the_planner_writes() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    if crate_folder.join("Cargo.toml.orig").exists() {
        return; // A published package has no pages of the repository beside it.
    }
    let path = crate_folder.join("../../docs/schedules.md");
    let page = fs::read_to_string(&path).expect("docs/schedules.md beside the crates");
    let (found, expected) = (lists(&page), expected());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}
