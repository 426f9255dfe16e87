//! Epochs at several widths of what is sent.

use sylvie_report::{Arrangement, BarChart, Bars};

use crate::paper::definition::Policy;
use crate::paper::rules::{SHARE_OF_ALLOWED, is_falling};
use crate::paper::runs::Cell;
use crate::paper::section::{Case, Context, Section, number, percent};
use crate::policies::report::Row;

/// The figures' names in definitions.
const EPOCH: &str = "epoch, s";
const COMMUNICATION: &str = "communication, s";

/// What a picture or a claim takes of a run.
type Part = (&'static str, fn(&Row) -> f64);

/// Standing still for rows, codec apart.
fn communication_ms(row: &Row) -> f64 {
    (row.times.blocked_ms - row.times.encode_ms - row.times.decode_ms).max(0.0)
}

pub(super) fn section(context: Context<'_>) -> Section {
    let mut section = Section::default();
    for (cell, layout) in context.places() {
        table(context, (cell, layout), &mut section);
        chart(context, (cell, layout), &mut section);
        claims(context, (cell, layout), &mut section);
    }
    section
}

/// A figure of a policy over that of the first.
fn relative(
    context: Context<'_>,
    (cell, layout): (Cell<'_>, &str),
    policy: &Policy,
    figure: fn(&Row) -> f64,
) -> Option<f64> {
    let row = |name: &str| context.results.row(cell, layout, name).map(figure);
    Some(row(&policy.name)? / row(context.item.baseline())?)
}

/// The same of the paper's.
fn relative_in_paper(
    context: Context<'_>,
    (cell, layout): (Cell<'_>, &str),
    policy: &Policy,
    figure: &str,
) -> Option<f64> {
    let of = |name: &str| context.item.reported(cell, layout, figure, name);
    Some(of(&policy.name)? / of(context.item.baseline())?)
}

fn table(context: Context<'_>, place: (Cell<'_>, &str), section: &mut Section) {
    let name = context.name(place.0, place.1);
    let mut rows = Vec::new();
    for policy in &context.item.policies {
        let row = context.results.row(place.0, place.1, &policy.name);
        let epoch = relative(context, place, policy, |row| row.measured_s);
        section.figure(&[&context.item.id, &name, &policy.name, "epoch"], epoch, "of fp32's");
        rows.push(vec![
            policy.name.clone(),
            number(row.map(|row| 1e3 * row.measured_s), 1),
            percent(epoch),
            percent(relative_in_paper(context, place, policy, EPOCH)),
            number(row.map(communication_ms), 1),
            percent(relative(context, place, policy, communication_ms)),
            percent(relative_in_paper(context, place, policy, COMMUNICATION)),
            percent(relative(context, place, policy, |row| row.halo_bytes)),
        ]);
    }
    let headings = [
        "width",
        "epoch, ms",
        "of fp32's",
        "paper",
        "communication, ms",
        "of fp32's",
        "paper",
        "bytes, of fp32's",
    ];
    let caption = format!("{name}: epochs at each width, synchronous; bytes with metadata.");
    section.table(&caption, &headings, rows);
}

fn chart(context: Context<'_>, (cell, layout): (Cell<'_>, &str), section: &mut Section) {
    let item = context.item;
    let parts: [Part; 4] = [
        ("communication", communication_ms),
        ("computing", |row| row.times.compute_ms),
        ("all-reduce", |row| row.times.reduce_ms),
        ("codec", |row| row.times.encode_ms + row.times.decode_ms),
    ];
    let bars = parts.into_iter().map(|(name, part)| {
        let rows = item.policies.iter();
        let rows = rows.map(|policy| context.results.row(cell, layout, &policy.name).map(part));
        Bars { name: name.to_owned(), values: rows.collect() }
    });
    let chart = BarChart {
        title: context.name(cell, layout),
        y_label: "ms".to_owned(),
        groups: item.policies.iter().map(|policy| policy.name.clone()).collect(),
        bars: bars.collect(),
        arrangement: Arrangement::Stacked,
    };
    section.chart(chart.svg(), "Epochs at each width.");
}

fn claims(context: Context<'_>, place: (Cell<'_>, &str), section: &mut Section) {
    let item = context.item;
    let name = context.name(place.0, place.1);
    let all: Option<Vec<f64>> = item
        .policies
        .iter()
        .map(|policy| Some(context.results.row(place.0, place.1, &policy.name)?.measured_s))
        .collect();
    let found = all.iter().flatten().map(|s| format!("{:.0}", 1e3 * s)).collect::<Vec<_>>();
    let case = Case {
        name: name.clone(),
        holds: all.as_deref().map(is_falling),
        found: format!("{} ms", found.join(", ")),
    };
    let rule = "each epoch is shorter than at the width before";
    section.claim(item, "epochs get shorter with the width", rule, vec![case]);
    let Some(narrowest) = item.policies.last() else { return };
    let figures: [Part; 2] = [(EPOCH, |row| row.measured_s), (COMMUNICATION, communication_ms)];
    for (figure, of_row) in figures {
        let Some(paper) = relative_in_paper(context, place, narrowest, figure) else { continue };
        let ours = relative(context, place, narrowest, of_row);
        let case = Case {
            name: name.clone(),
            holds: ours.map(|ours| 1.0 - ours >= SHARE_OF_ALLOWED * (1.0 - paper)),
            found: format!("{} of it is left, paper {}", percent(ours), percent(Some(paper))),
        };
        let claim = format!("{}: {figure} shrinks as in the paper", narrowest.name);
        let rule = format!("by at least {SHARE_OF_ALLOWED} of what it shrinks by there");
        section.claim(item, &claim, &rule, vec![case]);
    }
}
