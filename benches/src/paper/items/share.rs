//! How much of an epoch in full precision is communication.

use super::breakdown::Breakdown;
use crate::paper::section::{Case, Context, Section, percent};

/// The least share that the paper reports.
const LEAST: f64 = 0.86;

pub(super) fn section(context: Context<'_>) -> Section {
    let Context { item, results, .. } = context;
    let mut section = Section::default();
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    let mut groups = Vec::new();
    let mut values = vec![Vec::new(); 3];
    for (cell, layout) in context.places() {
        let shares = results.row(cell, layout, item.baseline()).map(Breakdown::of);
        let name = context.name(cell, layout);
        let communication = shares.map(|s| s.communication + s.codec());
        let [computing, sums] = [shares.map(|s| s.computing), shares.map(|s| s.sums)];
        rows.push(vec![name.clone(), percent(communication), percent(computing), percent(sums)]);
        section.figure(&[&item.id, &name, "communication"], communication, "share");
        cases.push(Case {
            name: name.clone(),
            holds: communication.map(|share| share >= LEAST),
            found: percent(communication),
        });
        groups.push(name);
        for (values, share) in values.iter_mut().zip([communication, computing, sums]) {
            values.push(share.map(|share| 100.0 * share));
        }
    }
    let headings = ["", "communication", "computing", "all-reduce"];
    section.table("Shares of an epoch in full precision.", &headings, rows);
    let names = ["communication", "computing", "all-reduce"];
    section.shares((&item.title, "Where an epoch in full precision goes."), groups, &names, values);
    section.claim(
        item,
        "communication dominates training in full precision",
        "86 % of an epoch at least, the paper's least; the link is chosen by the share of computation, so that this says \
         no more than that the model of the link does what it should",
        cases,
    );
    section
}
