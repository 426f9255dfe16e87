//! How fast policies converge, and whether a bound on staleness helps.

use sylvie::pipeline::Preset;
use sylvie_report::{Line, LineChart, Scale};

use super::accuracy::{as_good, scores};
use crate::paper::rules::{closes_gap, mean};
use crate::paper::runs::Cell;
use crate::paper::section::{Case, Context, Section, number, percent};
use crate::paper::training::Curve;

/// The figure's name in definitions: the best validation score in the first tenth of the epochs.
const FIGURE: &str = "early validation score, %";

pub(super) fn section(context: Context<'_>) -> Section {
    let mut section = Section::default();
    table(context, &mut section);
    for &cell in context.cells {
        chart(context, cell, &mut section);
    }
    if let Some(name) = context.item.named(Preset::SylvieS) {
        as_good(context, &mut section, name);
    }
    bounds(context, &mut section);
    section
}

/// The first epochs: a tenth of them, and a quarter; as many on all data sets, also where trainings are longer.
fn tenth(context: Context<'_>) -> u32 {
    context.effort.epochs.div_ceil(10)
}

fn quarter(context: Context<'_>) -> u32 {
    context.effort.epochs.div_ceil(4)
}

fn curves<'a>(context: Context<'a>, cell: Cell<'_>, policy: &str) -> Vec<&'a Curve> {
    context.results.curves(cell, policy, context.effort, context.item.layouts[0].parts)
}

/// The mean over the seeds of a figure of each curve; `None` where one has none.
fn over_seeds(curves: &[&Curve], figure: impl Fn(&Curve) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = curves.iter().map(|curve| figure(curve)).collect();
    values.filter(|values| !values.is_empty()).map(|values| mean(&values))
}

fn table(context: Context<'_>, section: &mut Section) {
    let Context { item, .. } = context;
    let layout = item.layouts[0].name.as_str();
    let mut rows = Vec::new();
    for &cell in context.cells {
        for policy in &item.policies {
            let name = context.name(cell, layout);
            let curves = curves(context, cell, &policy.name);
            let best = over_seeds(&curves, |curve| curve.best_before(tenth(context)));
            let early = over_seeds(&curves, |curve| curve.mean_before(quarter(context)));
            section.figure(&[&item.id, &name, &policy.name, "early"], early, "share");
            let tests: Vec<f64> = curves.iter().map(|curve| curve.test).collect();
            let paper = item.reported(cell, layout, FIGURE, &policy.name);
            rows.push(vec![
                name,
                policy.name.clone(),
                percent(best),
                number(paper, 2),
                percent(early),
                scores(&tests),
            ]);
        }
    }
    let headings = [
        "",
        "policy",
        "best in the first tenth",
        "paper, %",
        "mean of the first quarter",
        "test score, %",
    ];
    let caption = format!(
        "Validation scores of the first epochs, means over the seeds: the best of the first {} epochs, which is what the paper \
         reports for its own first tenth, and the mean over the first {}; test scores at the best validation score.",
        tenth(context),
        quarter(context)
    );
    section.table(&caption, &headings, rows);
}

fn chart(context: Context<'_>, cell: Cell<'_>, section: &mut Section) {
    let lines = context.item.policies.iter().map(|policy| {
        let curves = curves(context, cell, &policy.name);
        Line { name: policy.name.clone(), points: mean_curve(&curves) }
    });
    let title = format!("{} {}", cell.0, cell.1);
    let chart = LineChart {
        title: title.clone(),
        x_label: "epoch".to_owned(),
        y_label: "validation score".to_owned(),
        y_scale: Scale::Linear,
        series: lines.collect(),
    };
    section.chart(chart.svg(), &format!("{title}: validation score, mean over the seeds."));
}

/// The mean validation score at each epoch that all curves have one at.
fn mean_curve(curves: &[&Curve]) -> Vec<(f64, f64)> {
    let Some(first) = curves.first() else { return Vec::new() };
    let at = |at: usize| {
        let values: Option<Vec<f64>> =
            curves.iter().map(|curve| curve.epochs.get(at)?.val).collect();
        Some((f64::from(first.epochs[at].epoch), mean(&values?)))
    };
    (0..first.epochs.len()).filter_map(at).collect()
}

/// Whether a bound brings the asynchronous policy nearer to full precision, and a tight one nearer still.
fn bounds(context: Context<'_>, section: &mut Section) {
    let item = context.item;
    let Some(unbounded) = item
        .policies
        .iter()
        .find(|policy| policy.preset == Preset::SylvieA && policy.staleness.unwrap_or(0) == 0)
    else {
        return;
    };
    let mut bounded: Vec<_> =
        item.policies.iter().filter(|policy| policy.staleness.unwrap_or(0) > 0).collect();
    bounded.sort_by_key(|policy| policy.staleness);
    let mut pairs: Vec<(&str, &str)> =
        bounded.iter().map(|policy| (policy.name.as_str(), unbounded.name.as_str())).collect();
    pairs.extend(bounded.windows(2).map(|two| (two[0].name.as_str(), two[1].name.as_str())));
    for (nearer, further) in pairs {
        let cases = context.cells.iter().map(|&cell| {
            let early = |name: &str| {
                let curves = curves(context, cell, name);
                over_seeds(&curves, |curve| curve.mean_before(quarter(context)))
            };
            let all = [nearer, further, item.baseline()].map(early);
            let holds = match all {
                [Some(near), Some(far), Some(base)] => Some(closes_gap(near, far, base)),
                _ => None,
            };
            let found =
                format!("{}, {}, fp32 {}", percent(all[0]), percent(all[1]), percent(all[2]));
            Case { name: format!("{} {}", cell.0, cell.1), holds, found }
        });
        let claim = format!("{nearer} converges nearer to {} than {further}", item.baseline());
        let rule = "mean validation score over the first quarter of the epochs, mean over the seeds: the gap is smaller";
        section.claim(item, &claim, rule, cases.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::mean_curve;
    use crate::paper::training::{Curve, EpochPoint};

    #[test]
    fn curves_are_averaged_where_all_have_a_score() {
        let curve = |vals: [Option<f64>; 3]| {
            let points = (0..).zip(vals);
            let points = points.map(|(epoch, val)| EpochPoint { epoch, loss: 0.0, val });
            Curve { epochs: points.collect(), ..Curve::default() }
        };
        let curves = [curve([Some(0.25), None, Some(1.0)]), curve([Some(0.75), None, Some(0.5)])];
        assert_eq!(mean_curve(&[&curves[0], &curves[1]]), [(0.0, 0.5), (2.0, 0.75)]);
        assert!(mean_curve(&[]).is_empty());
    }
}
