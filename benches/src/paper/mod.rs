//! Every table and figure of the paper, measured by definitions that are data, with records and a page.

pub(crate) mod compare;
mod definition;
mod graphs;
mod items;
pub(crate) mod page;
pub(crate) mod record;
mod rules;
mod runs;
pub(crate) mod section;
mod stored;
#[cfg(test)]
mod tests;
mod training;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::policies::surroundings;
use compare::Named;
use definition::{Definitions, Item};
use graphs::{Graphs, Mode};
use page::{Preface, page, verdicts};
use record::{Record, today};
use runs::{HostsCommand, Results, Runner, Why};
use section::{Claim, Context, Figure, Section};
use stored::Settings;

/// Where definitions and records are, in the repository that this was built from.
pub(crate) const BENCHES: &str = env!("CARGO_MANIFEST_DIR");

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    /// Smaller graphs, narrower networks, fewer epochs and seeds: half an hour at most on two cores, where all of it takes
    /// longer: an hour over links, and most of another for trainings.
    #[arg(long)]
    quick: bool,
    /// Only these items [default: all].
    #[arg(long, value_delimiter = ',')]
    item: Vec<String>,
    /// Nodes of the generated graphs, over those of the definitions.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Folder of real graphs: those of the definitions that are there are trained on as well.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// An earlier record, or its figures.csv, to compare with.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// What the record is called, after the date [default: quick or full].
    #[arg(long)]
    name: Option<String>,
    /// Folder of records [default: benches/record].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Goes on with a record that was ended or is to have more items: the runs that it has are kept. Its
    /// definitions must be the same; `--data` is to be given again.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["quick", "scale", "name", "out"])]
    resume: Option<PathBuf>,
    /// Folder of definitions [default: benches/experiments].
    #[arg(long, value_name = "FOLDER")]
    definitions: Option<PathBuf>,
    /// What is started in the place of `cargo xtask bench hosts`.
    #[arg(skip)]
    hosts: Option<PathBuf>,
}

impl PaperArguments {
    /// A new record, or the one to be gone on with, and the runs in it.
    fn record(&self, definitions: &Definitions) -> Result<(Record, Settings, Results)> {
        if let Some(folder) = &self.resume {
            let settings = stored::settings(folder)?;
            let record = Record::resume(folder, definitions)?;
            return Ok((record, settings, stored::results(folder)?));
        }
        let default = if self.quick { "quick" } else { "full" };
        let name = format!("{}-{}", today(), self.name.as_deref().unwrap_or(default));
        let parent = self.out.clone().unwrap_or_else(|| Path::new(BENCHES).join("record"));
        let record = Record::create(&parent, &name)?;
        Ok((record, Settings { quick: self.quick, scale: self.scale }, Results::default()))
    }
}

/// What a reader has to know of every figure.
const NOTES: [&str; 3] = [
    "Ranks are threads of one process and really wait for messages as long as the modelled link says. Its \
     bandwidth is chosen, for each data set and model, so that computation is the same share of an epoch in full precision as on \
     the paper's machines (1 to 2 % on two hosts; the page says where it is another): times are not the paper's, their ratios are \
     to be compared. The first epochs are not counted, epochs are medians, and throughput is relative to full precision.",
    "Graphs are generated in the shape of the paper's data sets (degrees in the same order, one or several classes a node, \
     inductive or not), with far fewer nodes, edges and columns, so that fewer bytes of rows stand beside the sums of weight \
     gradients, and metadata weigh more: what the link allows is therefore computed for these networks, without and with those sums. \
     Nodes are assigned at random, so that nearly every row is read by every part, as on graphs as dense as the paper's.",
    "Scores come from trainings without a link, which changes no bit of a run.",
];

/// Measures, writes the record, and prints the verdicts.
///
/// # Errors
/// Definitions, arguments or an earlier record that cannot be read; files that cannot be written; after all items, runs that failed.
pub(crate) fn measure(arguments: &PaperArguments) -> Result<()> {
    let default = || Path::new(BENCHES).join("experiments");
    let folder = arguments.definitions.clone().unwrap_or_else(default);
    let definitions = Definitions::read(&folder)?;
    let items = chosen(&definitions, &arguments.item)?;
    let before = arguments.compare.as_deref().map(compare::read).transpose()?;
    ensure!(arguments.scale > 0.0, "--scale {}, expected more than 0", arguments.scale);
    if let Some(folder) = &arguments.data {
        ensure!(folder.is_dir(), "--data {} is no folder", folder.display());
    }
    let (record, settings, results) = arguments.record(&definitions)?;
    let surroundings = surroundings::describe();
    println!("{surroundings}\nrecord: {}", record.folder.display());
    let surroundings = record.append("machine.txt", &surroundings)?;
    record.write(stored::SETTINGS, &toml::to_string(&settings)?)?;
    record.write_runs(&results)?;
    for (name, text) in &definitions.files {
        record.write(&format!("definitions/{name}"), text)?;
    }
    let mode = if settings.quick { Mode::Quick } else { Mode::Full };
    let graphs = Graphs::new(mode, settings.scale, arguments.data.clone());
    let mut runner = Runner::new(&definitions, graphs, (&record, results));
    runner.hosts = arguments.hosts.as_deref().map(HostsCommand::of).unwrap_or_default();
    let paper = Paper { items: &items, record: &record, surroundings, before: before.as_ref() };
    let mut sections = Vec::new();
    for (at, &item) in items.iter().enumerate() {
        println!("\n{} ({} of {}): {}", item.id, at + 1, items.len(), item.title);
        runner.run(item)?;
        // Every item so far: its record outlives whatever becomes of the next.
        sections = paper.write(&runner, at + 1)?;
        let claims = sections.last().map(|section: &Section| section.claims.as_slice());
        print_claims(claims.unwrap_or_default());
    }
    finish(&runner, &sections, &record)
}

/// What a record is written from.
struct Paper<'a> {
    items: &'a [&'a Item],
    record: &'a Record,
    surroundings: String,
    before: Option<&'a Named>,
}

impl<'a> Paper<'a> {
    /// Writes the first items, and gives their sections.
    fn write(&self, runner: &Runner<'a>, n_items: usize) -> Result<Vec<Section>> {
        let sections: Vec<Section> = self.items[..n_items]
            .iter()
            .map(|&item| {
                let (effort, cells) = (runner.effort(item), runner.cells(item));
                let results = &runner.results;
                items::section(Context { item, effort, cells: &cells, results })
            })
            .collect();
        let claims: Vec<&Claim> = sections.iter().flat_map(|section| &section.claims).collect();
        let figures: Vec<&Figure> = sections.iter().flat_map(|section| &section.figures).collect();
        self.record.write_runs(&runner.results)?;
        self.record.write_findings(&claims, &figures)?;
        let preface = Preface {
            title: "The paper's tables and figures, measured",
            surroundings: &self.surroundings,
            notes: &NOTES.map(str::to_owned),
        };
        let page = page(&preface, &runner.results, &sections, self.before);
        self.record.write("report.html", &page)?;
        Ok(sections)
    }
}

/// The items asked for, in the order of the definitions.
fn chosen<'a>(definitions: &'a Definitions, asked: &[String]) -> Result<Vec<&'a Item>> {
    let items = &definitions.items;
    for id in asked {
        let known: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        let known_ids = known.join(", ");
        ensure!(known.contains(&id.as_str()), "item '{id}', expected one of {known_ids}");
    }
    let is_asked = |item: &&Item| asked.is_empty() || asked.contains(&item.id);
    Ok(items.iter().filter(is_asked).collect())
}

fn print_claims(claims: &[Claim]) {
    for claim in claims {
        println!("  {}: {} ({})", claim.outcome.text(), claim.claim, claim.found);
    }
}

fn finish(runner: &Runner<'_>, sections: &[Section], record: &Record) -> Result<()> {
    let claims: Vec<&Claim> = sections.iter().flat_map(|section| &section.claims).collect();
    println!("\n| item | claim | verdict |\n|---|---|---|");
    for row in &verdicts(&claims).rows {
        println!("| {} | {} | {} |", row[0], row[1], row[2]);
    }
    println!("\nrecord: {}", record.folder.display());
    println!("page:   {}", record.folder.join("report.html").display());
    let count = |is_meant: fn(&Why) -> bool| {
        runner.results.missing.iter().filter(|missing| is_meant(&missing.why)).count()
    };
    let failed = count(|why| matches!(why, Why::Failed(_)));
    for (n_missing, why) in [
        (count(|why| matches!(why, Why::Time)), "were left out for want of time"),
        (count(|why| matches!(why, Why::NotHere(_))), "cannot be made here; the page says why"),
    ] {
        if n_missing > 0 {
            println!("{n_missing} runs {why}");
        }
    }
    if failed > 0 {
        bail!("{failed} runs failed; the page names them");
    }
    Ok(())
}
