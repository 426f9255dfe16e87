//! How much of a one-bit epoch is quantising and dequantising.

use sylvie::pipeline::Preset;

use super::breakdown::Breakdown;
use crate::paper::section::{Case, Context, Section, percent};

pub(super) fn section(context: Context<'_>) -> Section {
    let Context { item, results, .. } = context;
    let mut section = Section::default();
    let Some(name) = item.named(Preset::SylvieS) else { return section };
    let mut rows = Vec::new();
    let (mut cases, mut groups) = (Vec::new(), Vec::new());
    let mut values = vec![Vec::new(); Breakdown::NAMES.len()];
    for (cell, layout) in context.places() {
        let shares = results.row(cell, layout, name).map(Breakdown::of);
        let place = context.name(cell, layout);
        let all = shares.map(Breakdown::shares);
        let mut row = vec![place.clone()];
        for (at, values) in values.iter_mut().enumerate() {
            let share = all.map(|shares| shares[at]);
            row.push(percent(share));
            values.push(share.map(|share| 100.0 * share));
        }
        let codec = shares.map(Breakdown::codec);
        row.push(percent(codec));
        rows.push(row);
        section.figure(&[&item.id, &place, "codec"], codec, "share");
        cases.push(Case {
            name: place.clone(),
            holds: shares.map(|s| s.codec() < s.communication.min(s.computing)),
            found: percent(codec),
        });
        groups.push(place);
    }
    let mut headings = vec![""];
    headings.extend(Breakdown::NAMES);
    headings.push("codec");
    let caption = format!(
        "Shares of an epoch of {name}. The paper on two servers: quantise 3.7 %, dequantise 2.2 %, together 5.9 %, beside 6.7 % \
         of all-reduce."
    );
    section.table(&caption, &headings, rows);
    section.shares(
        (&item.title, &format!("Where an epoch of {name} goes.")),
        groups,
        &Breakdown::NAMES,
        values,
    );
    let rule = "quantising and dequantising together take less than communication, and less than computing";
    section.claim(item, "the codec is a small part of an epoch", rule, cases);
    fewer_hosts(context, name, &mut section);
    section
}

/// Whether the codec weighs less where there are more hosts: the first layout has the most.
fn fewer_hosts(context: Context<'_>, name: &str, section: &mut Section) {
    let [first, .., last] = context.item.layouts.as_slice() else { return };
    let cases = context.timed_cells().map(|cell| {
        let of = |layout: &str| {
            context.results.row(cell, layout, name).map(|row| Breakdown::of(row).codec())
        };
        let (many, few) = (of(&first.name), of(&last.name));
        Case {
            name: format!("{} {}", cell.0, cell.1),
            holds: many.zip(few).map(|(many, few)| many < few),
            found: format!("{} and {}", percent(many), percent(few)),
        }
    });
    let claim = format!("its share is smaller with {} than with {}", first.name, last.name);
    section.claim(context.item, &claim, "a smaller share of the epoch", cases.collect());
}
