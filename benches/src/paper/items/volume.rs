//! Bytes of an epoch, and where its time goes.

use sylvie::pipeline::Preset;

use super::breakdown::Breakdown;
use crate::paper::rules::{TOLERANCE, is_close};
use crate::paper::section::{Case, Context, Section, number, percent};

/// Bytes of a value in full precision over its bit.
const RATIO: f64 = 32.0;

pub(super) fn section(context: Context<'_>) -> Section {
    let mut section = Section::default();
    bytes(context, &mut section);
    times(context, &mut section);
    section
}

fn bytes(context: Context<'_>, section: &mut Section) {
    let Context { item, results, .. } = context;
    let mut rows = Vec::new();
    let (mut payloads, mut metadata) = (Vec::new(), Vec::new());
    for (cell, layout) in context.places() {
        let name = context.name(cell, layout);
        let full = results.row(cell, layout, item.baseline());
        let one_bit = item.named(Preset::SylvieS).and_then(|s| results.row(cell, layout, s));
        let both = full.zip(one_bit);
        let megabytes = |bytes: Option<f64>| number(bytes.map(|bytes| bytes / 1e6), 3);
        let ratio = both.map(|(full, one_bit)| full.payload_bytes / one_bit.payload_bytes);
        let share = one_bit.map(|row| row.metadata_bytes / row.payload_bytes);
        let expected = one_bit.map(|row| 32.0 / row.n_hidden as f64);
        section.figure(&[&item.id, &name, "payload ratio"], ratio, "times");
        payloads.push(Case {
            name: name.clone(),
            holds: ratio.map(|ratio| is_close(ratio, RATIO)),
            found: number(ratio, 2),
        });
        metadata.push(Case {
            name: name.clone(),
            holds: share.zip(expected).map(|(share, expected)| is_close(share, expected)),
            found: format!("{} of {}", percent(share), percent(expected)),
        });
        rows.push(vec![
            name,
            megabytes(full.map(|row| row.payload_bytes)),
            megabytes(one_bit.map(|row| row.payload_bytes)),
            number(ratio, 2),
            megabytes(one_bit.map(|row| row.metadata_bytes)),
            percent(share),
            megabytes(one_bit.map(|row| row.reduce_bytes)),
        ]);
    }
    let headings = [
        "",
        "fp32, MB",
        "one bit, MB",
        "ratio",
        "metadata, MB",
        "of the payload",
        "all-reduce, MB",
    ];
    let caption = "Bytes sent in an epoch, over all ranks. The paper, Amazon: 5632.6 MB in full precision, 176.1 MB and \
                   11.0 MB of metadata (6.25 % at 512 columns) at one bit.";
    section.table(caption, &headings, rows);
    let rule = format!("payloads' ratio is {RATIO} within {:.0} %", 100.0 * TOLERANCE);
    section.claim(item, "one bit sends 32 times less", &rule, payloads);
    let rule = format!("32/d of the payload for d columns, within {:.0} %", 100.0 * TOLERANCE);
    section.claim(item, "metadata are four bytes a row", &rule, metadata);
}

fn times(context: Context<'_>, section: &mut Section) {
    let Context { item, results, .. } = context;
    let mut rows = Vec::new();
    let mut largest = Vec::new();
    let mut groups = Vec::new();
    let mut values = vec![Vec::new(); Breakdown::NAMES.len()];
    for (cell, layout) in context.places() {
        for policy in &item.policies {
            let shares = results.row(cell, layout, &policy.name).map(Breakdown::of);
            let name = format!("{}, {}", context.name(cell, layout), policy.name);
            let mut row = vec![name.clone()];
            let of_all = shares.map(Breakdown::shares);
            for (at, values) in values.iter_mut().enumerate() {
                let share = of_all.map(|shares| shares[at]);
                row.push(percent(share));
                values.push(share.map(|share| 100.0 * share));
            }
            rows.push(row);
            if policy.preset == Preset::SylvieS {
                let [communication, others @ ..] = of_all.unwrap_or_default();
                let most = others.into_iter().fold(0.0, f64::max);
                largest.push(Case {
                    name: name.clone(),
                    holds: shares.map(|_| communication > most),
                    found: percent(Some(communication)),
                });
            }
            groups.push(name);
        }
    }
    let mut headings = vec![""];
    headings.extend(Breakdown::NAMES);
    let caption = "Shares of an epoch, of the threads that compute. The paper, Reddit, SAGE, Sylvie-S on two servers: communication \
                   75.3 %, computing 12.1 %, all-reduce 6.7 %, quantise 3.7 %, dequantise 2.2 %.";
    section.table(caption, &headings, rows);
    section.shares(
        ("where an epoch goes", "Shares of an epoch."),
        groups,
        &Breakdown::NAMES,
        values,
    );
    let (claim, rule) = (
        "at one bit, too, communication is the largest part of an epoch",
        "its share is above that of each other part",
    );
    section.claim(item, claim, rule, largest);
}
