//! The sections of the page, one file a kind of item.

mod ablation;
mod accuracy;
mod breakdown;
mod codec;
mod convergence;
mod hosts;
mod share;
mod throughput;
mod traces;
mod volume;
mod widths;

use super::definition::Kind;
use super::runs::{Missing, Why};
use super::section::{Context, Section};

/// Tables, pictures and claims of an item, from the runs that there are.
pub(crate) fn section(context: Context<'_>) -> Section {
    let item = context.item;
    let mut section = match item.kind {
        Kind::Share => share::section(context),
        Kind::Throughput => throughput::section(context),
        Kind::Accuracy => accuracy::section(context),
        Kind::Volume => volume::section(context),
        Kind::Convergence => convergence::section(context),
        Kind::Widths => widths::section(context),
        Kind::Ablation => ablation::section(context),
        Kind::Codec => codec::section(context),
        Kind::Traces => traces::section(context),
        Kind::Hosts => hosts::section(context),
    };
    section.heading = format!("{}: {}", item.place, item.title);
    section.paragraphs.insert(0, item.expects.clone());
    let missing = context.results.missing.iter().filter(|missing| missing.item == item.id);
    let missing: Vec<String> = missing.map(described).collect();
    if !missing.is_empty() {
        section.paragraphs.push(format!("Missing: {}.", missing.join("; ")));
    }
    section
}

fn described(missing: &Missing) -> String {
    match &missing.why {
        Why::Time => format!("{} (the item's time was used up)", missing.what),
        Why::Failed(error) => format!("{} (failed: {error})", missing.what),
        Why::NotHere(reason) => format!("{} (not measured here: {reason})", missing.what),
    }
}
