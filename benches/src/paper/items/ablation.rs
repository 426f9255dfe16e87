//! Test scores where every row is quantised, and not only those that are sent.

use sylvie::pipeline::Preset;

use super::accuracy::{FIGURE, against, scores};
use crate::paper::rules::{is_visibly_worse, mean};
use crate::paper::section::{Context, Section, number};

pub(super) fn section(context: Context<'_>) -> Section {
    let Context { item, .. } = context;
    let mut section = Section::default();
    let layout = item.layouts[0].name.as_str();
    let mut rows = Vec::new();
    for &cell in context.cells {
        let name = context.name(cell, layout);
        for policy in &item.policies {
            let tests = context.tests(cell, &policy.name);
            let mean_test = (!tests.is_empty()).then(|| 100.0 * mean(&tests));
            section.figure(&[&item.id, &name, &policy.name, "test"], mean_test, "%");
            let paper = item.reported(cell, layout, FIGURE, &policy.name);
            rows.push(vec![
                name.clone(),
                policy.name.clone(),
                scores(&tests),
                tests.len().to_string(),
                number(paper, 2),
            ]);
        }
    }
    let headings = ["", "policy", "test score, %", "seeds", "paper, %"];
    section.table("Test scores at the best validation score.", &headings, rows);
    if let (Some(all), Some(sent)) = (item.named(Preset::QuantizeAll), item.named(Preset::SylvieS))
    {
        let cases = context.cells.iter();
        let cases = cases.map(|&cell| against(context, cell, [all, sent], is_visibly_worse));
        let claim = format!("{all} scores visibly worse than {sent}");
        let rule = "in the mean below it by more than both standard deviations together";
        section.claim(item, &claim, rule, cases.collect());
    }
    section
}
