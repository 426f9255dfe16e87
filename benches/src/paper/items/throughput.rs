//! Epochs a second, relative to full precision, beside what the link allows and what the paper reports.

use sylvie::pipeline::{Memory, Preset, Schedule};
use sylvie_report::{Arrangement, BarChart, Bars};

use crate::paper::definition::Policy;
use crate::paper::rules::{
    Fp32, SHARE_OF_ALLOWED, is_above_all, is_falling, is_near_allowed, row_ratio,
};
use crate::paper::runs::Cell;
use crate::paper::section::{Case, Context, Section, number};
use crate::policies::report::Row;

/// The figure's name in definitions.
pub(super) const FIGURE: &str = "throughput";
/// What both of the paper's systems are.
pub(super) const OURS: [Preset; 2] = [Preset::SylvieS, Preset::SylvieA];
/// What they are compared with.
const BASELINES: [Preset; 4] = [Preset::Vanilla, Preset::Sar, Preset::PipeGcn, Preset::BnsGcn];
/// The order that the paper finds, the fastest first.
const ORDER: [Preset; 6] = [
    Preset::SylvieA,
    Preset::SylvieS,
    Preset::BnsGcn,
    Preset::PipeGcn,
    Preset::Vanilla,
    Preset::Sar,
];

pub(super) fn section(context: Context<'_>) -> Section {
    let mut section = Section::default();
    table(context, &mut section);
    charts(context, &mut section);
    ahead(context, &mut section);
    near_allowed(context, &mut section);
    near_paper(context, &mut section);
    ordered(context, &mut section);
    more_hosts(context, &mut section);
    section
}

/// What the link allows a policy, over full precision: without the sums of weight gradients, and with them.
///
/// Sequential memory is left out: its rounds follow one another.
pub(super) fn allowed(fp32: &Row, policy: &Policy) -> Option<[f64; 2]> {
    let exchange = policy.exchange();
    let codec = *exchange.forward.first()?;
    if exchange.memory == Memory::Sequential {
        return None;
    }
    let ratio = row_ratio(codec, fp32.n_hidden) / exchange.boundary_sampling.unwrap_or(1.0);
    let fp32 = Fp32 {
        epoch_s: fp32.measured_s,
        computation_s: fp32.computation_s,
        rows_s: fp32.transfer_s,
        reduction_s: fp32.reduction_s,
    };
    Some(match exchange.schedule {
        Schedule::Sync => [fp32.allowed_waiting(ratio), fp32.allowed_waiting_with_sums(ratio)],
        Schedule::Async => [fp32.allowed_hidden(ratio), fp32.allowed_hidden_with_sums(ratio)],
    })
}

/// What a policy is allowed in a place.
fn allowed_in(
    context: Context<'_>,
    cell: Cell<'_>,
    layout: &str,
    policy: &Policy,
) -> Option<[f64; 2]> {
    allowed(context.results.row(cell, layout, context.item.baseline())?, policy)
}

fn table(context: Context<'_>, section: &mut Section) {
    let Context { item, results, .. } = context;
    let mut rows = Vec::new();
    for (cell, layout) in context.places() {
        let name = context.name(cell, layout);
        for policy in &item.policies {
            let row = results.row(cell, layout, &policy.name);
            let throughput = context.throughput(cell, layout, &policy.name);
            let allowed = row.and_then(|_| allowed_in(context, cell, layout, policy));
            let paper = item.reported(cell, layout, FIGURE, &policy.name);
            section.figure(&[&item.id, &name, &policy.name, FIGURE], throughput, "times fp32");
            let epoch_ms = row.map(|row| 1e3 * row.measured_s);
            section.figure(&[&item.id, &name, &policy.name, "epoch"], epoch_ms, "ms");
            rows.push(vec![
                name.clone(),
                policy.name.clone(),
                number(epoch_ms, 1),
                number(row.map(|row| row.measured_s / row.predicted_s), 2),
                number(throughput, 2),
                number(allowed.map(|allowed| allowed[0]), 2),
                number(allowed.map(|allowed| allowed[1]), 2),
                number(paper, 2),
            ]);
        }
    }
    let headings = [
        "",
        "policy",
        "epoch, ms",
        "over prediction",
        "throughput",
        "link allows, rows alone",
        "link allows, with all-reduce",
        "paper",
    ];
    let caption = "Throughput over fp32's. The link allows T/(T_c + C/r) where exchanges are waited for and T/max(T_c, C/r) \
                   where they are hidden, with fp32's epoch T, its computation T_c, its rows on the link C and r times fewer bytes; \
                   with all-reduce, what the sums of weight gradients take on the link is added to the denominator.";
    section.table(caption, &headings, rows);
}

/// A chart a model: side by side, names of all models' groups would not fit.
fn charts(context: Context<'_>, section: &mut Section) {
    let Context { item, .. } = context;
    for &kind in &item.models {
        let places: Vec<_> =
            context.places().into_iter().filter(|((_, model), _)| *model == kind).collect();
        if places.is_empty() {
            continue;
        }
        let bars = item.policies.iter().map(|policy| {
            let of = |&(cell, layout)| context.throughput(cell, layout, &policy.name);
            Bars { name: policy.name.clone(), values: places.iter().map(of).collect() }
        });
        let chart = BarChart {
            title: format!("{}: {kind}", item.title),
            y_label: "throughput over fp32's".to_owned(),
            groups: places.iter().map(|&(cell, layout)| context.group(cell, layout)).collect(),
            bars: bars.collect(),
            arrangement: Arrangement::Grouped,
        };
        section.chart(chart.svg(), "Throughput, over that of full precision.");
    }
}

fn ahead(context: Context<'_>, section: &mut Section) {
    let cases = context.places().into_iter().map(|(cell, layout)| {
        let of = |preset| context.of_preset(cell, layout, preset);
        let named = BASELINES.iter().filter(|&&preset| context.item.named(preset).is_some());
        let baselines: Option<Vec<f64>> = named.map(|&preset| of(preset)).collect();
        let ours = of(OURS[0]).zip(of(OURS[1])).map(|(s, a)| s.min(a));
        let best = baselines.as_ref().map(|all| all.iter().copied().fold(0.0, f64::max));
        Case {
            name: context.name(cell, layout),
            holds: ours.zip(baselines).map(|(ours, baselines)| is_above_all(ours, &baselines)),
            found: format!("{} against {}", number(ours, 1), number(best, 1)),
        }
    });
    let (claim, rule) = (
        "Sylvie-S and Sylvie-A are ahead of every baseline",
        "the slower of the two has a higher throughput than the fastest baseline",
    );
    section.claim(context.item, claim, rule, cases.collect());
}

fn near_allowed(context: Context<'_>, section: &mut Section) {
    let kinds = ["rows alone", "rows and all-reduce"];
    for preset in OURS {
        let Some(policy) = context.item.policies.iter().find(|policy| policy.preset == preset)
        else {
            continue;
        };
        for (at, kind) in kinds.into_iter().enumerate() {
            let cases = context.places().into_iter().map(|(cell, layout)| {
                let throughput = context.throughput(cell, layout, &policy.name);
                let allowed = allowed_in(context, cell, layout, policy).map(|all| all[at]);
                let both = throughput.zip(allowed);
                Case {
                    name: context.name(cell, layout),
                    holds: both.map(|(throughput, allowed)| is_near_allowed(throughput, allowed)),
                    found: format!("{} of {}", number(throughput, 1), number(allowed, 1)),
                }
            });
            let claim = format!("{} reaches what the link allows, {kind}", policy.name);
            let rule = format!("at least {SHARE_OF_ALLOWED} of it");
            section.claim(context.item, &claim, &rule, cases.collect());
        }
    }
}

fn near_paper(context: Context<'_>, section: &mut Section) {
    for preset in OURS {
        let Some(name) = context.item.named(preset) else { continue };
        let cases = context.places().into_iter().filter_map(|(cell, layout)| {
            let paper = context.item.reported(cell, layout, FIGURE, name)?;
            let throughput = context.throughput(cell, layout, name);
            Some(Case {
                name: context.name(cell, layout),
                holds: throughput.map(|throughput| is_near_allowed(throughput, paper)),
                found: format!("{}, paper {paper}", number(throughput, 1)),
            })
        });
        let claim = format!("{name} gains as much as in the paper");
        let rule = format!(
            "at least {SHARE_OF_ALLOWED} of the paper's factor; the networks here are narrower, so that metadata weigh more"
        );
        let cases: Vec<Case> = cases.collect();
        if !cases.is_empty() {
            section.claim(context.item, &claim, &rule, cases);
        }
    }
}

fn ordered(context: Context<'_>, section: &mut Section) {
    let named: Vec<Preset> =
        ORDER.into_iter().filter(|&preset| context.item.named(preset).is_some()).collect();
    let cases = context.places().into_iter().map(|(cell, layout)| {
        let all: Option<Vec<f64>> =
            named.iter().map(|&preset| context.of_preset(cell, layout, preset)).collect();
        let found = all.iter().flatten().map(|value| format!("{value:.2}")).collect::<Vec<_>>();
        Case {
            name: context.name(cell, layout),
            holds: all.map(|all| is_falling(&all)),
            found: found.join(", "),
        }
    });
    let words: Vec<String> = named.iter().map(ToString::to_string).collect();
    let claim = format!("the policies' order: {}", words.join(", "));
    section.claim(context.item, &claim, "each throughput is below the one before", cases.collect());
}

/// Whether one bit gains more where there are more hosts.
fn more_hosts(context: Context<'_>, section: &mut Section) {
    let [first, .., last] = context.item.layouts.as_slice() else { return };
    let Some(name) = context.item.named(OURS[0]) else { return };
    let cases = context.timed_cells().map(|cell| {
        let of = |layout| context.throughput(cell, layout, name);
        let (few, many) = (of(&first.name), of(&last.name));
        Case {
            name: format!("{} {}", cell.0, cell.1),
            holds: few.zip(many).map(|(few, many)| many >= few),
            found: format!("{} and {}", number(few, 2), number(many, 2)),
        }
    });
    let claim = format!("{name} gains no less with {} than with {}", last.name, first.name);
    section.claim(context.item, &claim, "the throughput over fp32's is not lower", cases.collect());
}
