//! Throughput and test scores of every policy.

use sylvie::pipeline::Preset;

use super::throughput;
use crate::paper::rules::{PAPER_LOSS, deviation, is_as_good, mean};
use crate::paper::runs::Cell;
use crate::paper::section::{Case, Context, Section, number};

/// The figure's name in definitions.
pub(super) const FIGURE: &str = "test score, %";

pub(super) fn section(context: Context<'_>) -> Section {
    let Context { item, .. } = context;
    let mut section = Section::default();
    let layout = item.layouts[0].name.as_str();
    let mut rows = Vec::new();
    for &cell in context.cells {
        for policy in &item.policies {
            let tests = context.tests(cell, &policy.name);
            let throughput = context.throughput(cell, layout, &policy.name);
            let name = context.name(cell, layout);
            let mean_test = (!tests.is_empty()).then(|| 100.0 * mean(&tests));
            section.figure(&[&item.id, &name, &policy.name, "test"], mean_test, "%");
            rows.push(vec![
                name,
                policy.name.clone(),
                number(throughput, 2),
                number(item.reported(cell, layout, throughput::FIGURE, &policy.name), 2),
                scores(&tests),
                tests.len().to_string(),
                number(item.reported(cell, layout, FIGURE, &policy.name), 2),
            ]);
        }
    }
    let headings = ["", "policy", "throughput", "paper", "test score, %", "seeds", "paper, %"];
    let caption = "Throughput over fp32's, and test scores at the best validation score: mean and standard deviation over the \
                   seeds, accuracy for one class a node and micro-F1 for several. The graphs are generated, so that \
                   scores compare with fp32's here and not with the paper's.";
    section.table(caption, &headings, rows);
    for preset in [Preset::SylvieS, Preset::SylvieA] {
        if let Some(name) = item.named(preset) {
            as_good(context, &mut section, name);
        }
    }
    section
}

/// Mean and deviation in percent, or a dash.
pub(super) fn scores(tests: &[f64]) -> String {
    match tests {
        [] => "-".to_owned(),
        tests => format!("{:.2} ± {:.2}", 100.0 * mean(tests), 100.0 * deviation(tests)),
    }
}

/// What a policy and full precision reach in a cell.
pub(super) fn against(
    context: Context<'_>,
    cell: Cell<'_>,
    [policy, other]: [&str; 2],
    rule: fn(&[f64], &[f64]) -> bool,
) -> Case {
    let [mine, theirs] = [policy, other].map(|name| context.tests(cell, name));
    let is_measured = !mine.is_empty() && !theirs.is_empty();
    Case {
        name: format!("{} {}", cell.0, cell.1),
        holds: is_measured.then(|| rule(&mine, &theirs)),
        found: format!("{} against {}", scores(&mine), scores(&theirs)),
    }
}

pub(super) fn as_good(context: Context<'_>, section: &mut Section, name: &str) {
    let baseline = context.item.baseline();
    let cases = context.cells.iter();
    let cases = cases.map(|&cell| against(context, cell, [name, baseline], is_as_good));
    let claim = format!("{name} scores as {baseline} does");
    let rule = format!(
        "in the mean no further below than the larger of {:.2} points, the paper's largest loss, and both standard \
         deviations together",
        100.0 * PAPER_LOSS
    );
    section.claim(context.item, &claim, &rule, cases.collect());
}
