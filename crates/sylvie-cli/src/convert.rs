//! `sylvie convert`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sylvie::data::{Format, WRITE_CHOICES, shown, write};

use crate::console::Console;
use crate::flags::DataFlags;
use crate::settings::RunSettings;
use crate::{load, without_effect};

#[derive(Debug, Args)]
#[command(after_help = "\
What is written is the graph as it is trained on: without loops and duplicates, with inverses unless \
--directed, with features as --normalize leaves them. Formats do not say whether edges go one way: a graph \
that was read with --directed is to be read so again. The folder is written beside --out, under its name \
with .new, and renamed when it is whole.

Examples:
  sylvie convert --data ppi --to arrays --out ppi-arrays
  sylvie convert --data synthetic:nodes=100000,degree=30 --to ogb --out planted")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) data: DataFlags,
    /// Format to write: arrays, ogb, graphsaint or reddit.
    #[arg(long, value_name = "NAME", value_parser = writable)]
    pub(crate) to: Format,
    /// Folder for the files; it must be empty or not be there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

fn writable(word: &str) -> Result<Format, String> {
    let format: Format = word.parse().map_err(|_| format!("allowed are {WRITE_CHOICES}"))?;
    let is_written = WRITE_CHOICES.split('|').any(|choice| choice == word);
    is_written.then_some(format).ok_or_else(|| format!("only read; allowed are {WRITE_CHOICES}"))
}

/// Writes a graph in another format.
///
/// # Errors
/// A graph that cannot be read, that the format has no place for, or that cannot be written.
pub(crate) fn run(args: ConvertArgs) -> Result<()> {
    let console = Console::for_people();
    let settings = RunSettings::of_data(args.data.clone());
    without_effect::check_split(&args.data, &settings)?;
    let dataset = load::read(&settings, console)?;
    let what = format!("writing {}", shown(&args.out));
    console.during(&what, || write(&dataset, args.to, &args.out))?;
    console.line(format!(
        "{} nodes and {} directed edges as {} in {}",
        dataset.n_nodes(),
        dataset.graph.n_edges(),
        args.to,
        shown(&args.out)
    ))
}
