//! `sylvie partition`.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;
use sylvie::data::shown;
use sylvie::graph::Dataset;
use sylvie::partition::{About, Existing, NewFolder, PartQuality, Quality, Source, quality};

use crate::args::PartitionArgs;
use crate::console::{Console, counted};
use crate::settings::RunSettings;
use crate::{load, without_effect};

/// Splits a graph, shows the quality of the split, and writes the parts where a folder is asked for.
///
/// # Errors
/// A graph that cannot be read or split; a folder that cannot be written.
pub(crate) fn run(args: PartitionArgs) -> Result<()> {
    let console = Console::json_if(args.json);
    let settings = RunSettings {
        parts: args.parts,
        partitioner: args.partitioner,
        objective: args.objective,
        order: args.order,
        seed: args.seed,
        ..RunSettings::of_data(args.data.clone())
    };
    without_effect::check_split(&args.data, &settings)?;
    without_effect::check_objective(Some(args.objective), &settings)?;
    let existing = if args.overwrite { Existing::Replace } else { Existing::Keep };
    let folder = args.out.as_deref().map(|path| NewFolder::create(path, existing)).transpose()?;
    let dataset = load::read(&settings, console)?;
    let assignment = load::assign(&settings, &dataset, console)?;
    let quality = quality(&dataset.graph, &assignment, &load::training_nodes(&dataset));
    if let Some(folder) = folder {
        let about = about(&settings, &dataset, args.inductive);
        console.during("writing parts", || folder.write(&dataset, &assignment, &about))?;
    }
    console.json(&QualityLine::new(&settings, &quality))?;
    console.line(to_text(&settings, &quality))?;
    args.out.map_or(Ok(()), |path| console.line(format!("parts in {}", shown(&path))))
}

/// What the folder says of how it came about.
fn about(settings: &RunSettings, dataset: &Dataset, inductive: bool) -> About {
    About {
        source: Source {
            name: dataset.name.clone(),
            data: settings.data.clone(),
            format: settings.format.map(|format| format.to_string()),
            normalize: settings.normalize.to_string(),
            split: settings.split.to_string(),
            split_seed: settings.split_seed,
            split_index: settings.split_index,
        },
        partitioner: settings.partitioner.to_string(),
        objective: settings.objective.to_string(),
        seed: settings.seed,
        inductive,
    }
}

/// Quality as JSON. Edges are directed.
#[derive(Debug, Serialize)]
struct QualityLine {
    data: String,
    partitioner: String,
    objective: String,
    parts: u32,
    cut_edges: u64,
    halo_rows: u64,
    node_balance: f64,
    edge_balance: f64,
    train_balance: f64,
    per_part: Vec<PartLine>,
}

#[derive(Debug, Serialize)]
struct PartLine {
    part: usize,
    nodes: usize,
    edges: usize,
    train: usize,
    halo_rows: usize,
    halo_ratio: f64,
}

impl QualityLine {
    fn new(settings: &RunSettings, quality: &Quality) -> Self {
        let part_line = |(part, figures): (usize, &PartQuality)| PartLine {
            part,
            nodes: figures.n_nodes,
            edges: figures.n_edges,
            train: figures.n_train,
            halo_rows: figures.n_halo,
            halo_ratio: figures.halo_ratio,
        };
        Self {
            data: settings.data.clone(),
            partitioner: settings.partitioner.to_string(),
            objective: settings.objective.to_string(),
            parts: quality.n_parts,
            cut_edges: quality.cut_edges,
            halo_rows: quality.communication_volume,
            node_balance: quality.node_balance,
            edge_balance: quality.edge_balance,
            train_balance: quality.train_balance,
            per_part: quality.parts.iter().enumerate().map(part_line).collect(),
        }
    }
}

fn to_text(settings: &RunSettings, quality: &Quality) -> String {
    let mut text = format!(
        "{}, {} ({}, {})\n{:>7} {:>12} {:>14} {:>12} {:>12} {:>6}",
        settings.shown_data(),
        counted(quality.n_parts, "part"),
        settings.partitioner,
        settings.objective,
        "part",
        "nodes",
        "edges",
        "training",
        "halo rows",
        "halo"
    );
    let mut row = |name: &str, counts: [usize; 4], ratio: f64| {
        let [nodes, edges, train, halo] = counts;
        let _ = write!(text, "\n{name:>7} {nodes:>12} {edges:>14} {train:>12} {halo:>12}");
        let _ = write!(text, " {ratio:>6.3}");
    };
    let mut total = [0; 4];
    for (part, figures) in quality.parts.iter().enumerate() {
        let PartQuality { n_nodes, n_edges, n_train, n_halo, halo_ratio } = *figures;
        let counts = [n_nodes, n_edges, n_train, n_halo];
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
        row(&part.to_string(), counts, halo_ratio);
    }
    row("all", total, total[3] as f64 / total[0].max(1) as f64);
    let Quality { node_balance, edge_balance, train_balance, .. } = quality;
    let _ = write!(
        text,
        "\n{:>7} {node_balance:>12.3} {edge_balance:>14.3} {train_balance:>12.3}",
        "balance"
    );
    let share = 100.0 * quality.cut_edges as f64 / total[1].max(1) as f64;
    let _ =
        write!(text, "\n{} directed edges between parts, {share:.1} % of all", quality.cut_edges);
    text
}
