//! Throughput on hosts that are joined by shaped links, beside the modelled link and what rate and bytes imply.

use sylvie_report::{Arrangement, BarChart, Bars};

use super::throughput::OURS;
use crate::paper::definition::Policy;
use crate::paper::rules::{LINK_TOLERANCE, is_above_all, is_close, is_within};
use crate::paper::runs::{Cell, Shaped};
use crate::paper::section::{Case, Context, Section, number};

/// A time of a run, and what it is called.
type Named = (&'static str, fn(&Shaped) -> f64);

/// Where a throughput is from.
const KINDS: [Named; 3] = [
    ("shaped hosts", |run| run.measured_ms),
    ("modelled link", |run| run.modelled_ms),
    ("predicted", |run| run.predicted_ms),
];

pub(super) fn section(context: Context<'_>) -> Section {
    let mut section = Section::default();
    rates(context, &mut section);
    table(context, &mut section);
    charts(context, &mut section);
    ahead(context, &mut section);
    agrees(
        (context, &mut section),
        "epochs on shaped hosts are those of the modelled link",
        |run| run.measured_ms / run.modelled_ms,
    );
    agrees(
        (context, &mut section),
        "epochs on shaped hosts are what rate and bytes imply",
        |run| run.measured_ms / run.predicted_ms,
    );
    wire(context, &mut section);
    section
}

/// Throughput over that of the first policy, by one of [`KINDS`].
fn throughput(
    context: Context<'_>,
    (cell, layout): (Cell<'_>, &str),
    policy: &str,
    time: fn(&Shaped) -> f64,
) -> Option<f64> {
    let of = |policy: &str| context.results.shaped(cell, layout, policy).map(time);
    Some(of(context.item.baseline())? / of(policy)?)
}

/// Says at which rate was measured, and what computing is there.
fn rates(context: Context<'_>, section: &mut Section) {
    for (cell, layout) in context.places() {
        let Some(run) = context.results.shaped(cell, layout, context.item.baseline()) else {
            continue;
        };
        section.paragraphs.push(format!(
            "{}: {} Mbit/s a host, each way; without a link an epoch takes {:.1} % of full precision's.",
            context.name(cell, layout),
            run.rate_mbit,
            100.0 * run.linkless_ms / run.measured_ms
        ));
    }
}

fn table(context: Context<'_>, section: &mut Section) {
    let item = context.item;
    let mut rows = Vec::new();
    for place in context.places() {
        let name = context.name(place.0, place.1);
        for policy in &item.policies {
            let run = context.results.shaped(place.0, place.1, &policy.name);
            let over = |time: fn(&Shaped) -> f64| run.map(|run| run.measured_ms / time(run));
            let all = KINDS.map(|(_, time)| throughput(context, place, &policy.name, time));
            let epoch_ms = run.map(|run| run.measured_ms);
            section.figure(&[&item.id, &name, &policy.name, "throughput"], all[0], "times fp32");
            section.figure(&[&item.id, &name, &policy.name, "epoch"], epoch_ms, "ms");
            rows.push(vec![
                name.clone(),
                policy.name.clone(),
                number(epoch_ms, 1),
                number(over(|run| run.predicted_ms), 2),
                number(over(|run| run.modelled_ms), 2),
                number(all[0], 2),
                number(all[1], 2),
                number(all[2], 2),
                number(run.map(|run| run.wire), 3),
            ]);
        }
    }
    let headings = [
        "",
        "policy",
        "epoch, ms",
        "over prediction",
        "over modelled link",
        "throughput",
        "on the modelled link",
        "predicted",
        "payload on the wire over the count",
    ];
    let caption = "One rank a host under MPI, each host a namespace whose link is limited; threads over the modelled link of that \
                   rate; and what rate and bytes imply with computing measured without a link. Throughput is over full precision's.";
    section.table(caption, &headings, rows);
}

fn charts(context: Context<'_>, section: &mut Section) {
    let policies = &context.item.policies;
    for place in context.places() {
        let bars = KINDS.iter().map(|&(name, time)| {
            let value = |policy: &str| throughput(context, place, policy, time);
            let values = policies.iter().map(|policy| value(&policy.name));
            Bars { name: name.to_owned(), values: values.collect() }
        });
        let chart = BarChart {
            title: format!("Throughput, {}", context.name(place.0, place.1)),
            y_label: "throughput over fp32's".to_owned(),
            groups: policies.iter().map(|policy| policy.name.clone()).collect(),
            bars: bars.collect(),
            arrangement: Arrangement::Grouped,
        };
        section
            .chart(chart.svg(), "Shaped hosts, the modelled link, and what rate and bytes imply.");
    }
}

fn ahead(context: Context<'_>, section: &mut Section) {
    let (ours, others): (Vec<_>, Vec<_>) =
        context.item.policies.iter().partition(|policy| OURS.contains(&policy.preset));
    let cases = context.places().into_iter().map(|place| {
        let of = |name: &str| throughput(context, place, name, KINDS[0].1);
        let all = |policies: &[&Policy]| -> Option<Vec<f64>> {
            policies.iter().map(|policy| of(&policy.name)).collect()
        };
        let slower = all(&ours).map(|all| all.into_iter().fold(f64::INFINITY, f64::min));
        let baselines = all(&others);
        let best = baselines.as_ref().map(|all| all.iter().copied().fold(0.0, f64::max));
        Case {
            name: context.name(place.0, place.1),
            holds: slower.zip(baselines).map(|(slower, all)| is_above_all(slower, &all)),
            found: format!("{} against {}", number(slower, 1), number(best, 1)),
        }
    });
    let (claim, rule) = (
        "Sylvie-S and Sylvie-A are ahead of every baseline on shaped hosts",
        "the slower of the two has a higher throughput than the fastest baseline",
    );
    section.claim(context.item, claim, rule, cases.collect());
}

/// A claim about a ratio in every run, which is to be 1 but for what is tolerated of links.
fn agrees((context, section): (Context<'_>, &mut Section), claim: &str, ratio: fn(&Shaped) -> f64) {
    let cases = runs(context).map(|(name, run)| {
        let ratio = run.map(ratio);
        let holds = ratio.map(|ratio| is_within(ratio, 1.0, LINK_TOLERANCE));
        Case { name, holds, found: number(ratio, 2) }
    });
    let rule = format!("each within {:.0} % of it", 100.0 * LINK_TOLERANCE);
    section.claim(context.item, claim, &rule, cases.collect());
}

fn wire(context: Context<'_>, section: &mut Section) {
    let cases = runs(context).map(|(name, run)| Case {
        name,
        holds: run.map(|run| is_close(run.wire, 1.0)),
        found: number(run.map(|run| run.wire), 3),
    });
    let (claim, rule) =
        ("what the interfaces count is what the program counts", "payload within 2 % of the count");
    section.claim(context.item, claim, rule, cases.collect());
}

/// Every policy in every place, with its run where there is one.
fn runs<'a>(context: Context<'a>) -> impl Iterator<Item = (String, Option<&'a Shaped>)> {
    context.places().into_iter().flat_map(move |(cell, layout)| {
        context.item.policies.iter().map(move |policy| {
            let name = format!("{}, {}", context.name(cell, layout), policy.name);
            (name, context.results.shaped(cell, layout, &policy.name))
        })
    })
}
