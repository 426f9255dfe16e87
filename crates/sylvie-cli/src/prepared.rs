//! Graphs that are ready to be trained on.

use anyhow::{Context as _, Result};
use sylvie::gnn::{Metric, ModelConfig};
use sylvie::graph::{Dataset, Role};
use sylvie::partition::{PartitionFolder, Quality};
use sylvie::pipeline::RankInput;

use crate::console::Console;
use crate::model_file::LabelKind;
use crate::settings::RunSettings;
use crate::task::Task;
use crate::{load, partitioned};

/// What is known of a graph once it is read and split.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) model: ModelConfig,
    pub(crate) labels: LabelKind,
    pub(crate) metric: Metric,
    pub(crate) quality: Quality,
    /// Tells this split of this graph from others.
    #[cfg_attr(
        not(feature = "mpi"),
        expect(dead_code, reason = "ranks of one process have it all")
    )]
    pub(crate) identity: String,
}

/// Which parts are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// That of one rank.
    #[cfg_attr(
        not(feature = "mpi"),
        expect(dead_code, reason = "ranks of one process have it all")
    )]
    Of(u32),
}

/// Reads and splits the graph, or reads parts of one that is split, and settles what could not be settled
/// without it. Only the parts are kept.
///
/// # Errors
/// Data that cannot be read, split or trained on.
pub(crate) fn prepare(
    task: &mut Task,
    wanted: Wanted,
    console: Console,
) -> Result<(Prepared, Vec<RankInput>)> {
    match task.partition.take() {
        Some(folder) => from_folder(&mut task.settings, &folder, wanted, console),
        None => from_graph(&mut task.settings, wanted, console),
    }
}

fn from_graph(
    settings: &mut RunSettings,
    wanted: Wanted,
    console: Console,
) -> Result<(Prepared, Vec<RankInput>)> {
    let dataset = load::read(settings, console)?;
    console.line(describe(&dataset))?;
    let metric = load::metric(settings, &dataset.labels)?;
    load::check_class_weights(settings, &dataset.labels)?;
    settings.metric = Some(metric);
    settings.threads = Some(settings.n_threads());
    let model = load::model(settings, dataset.features.n_cols(), &dataset.labels)?;
    let assignment = load::assign(settings, &dataset, console)?;
    let (mut inputs, quality) = load::rank_inputs(settings, &dataset, &assignment);
    if let Wanted::Of(rank) = wanted {
        inputs = inputs.into_iter().skip(rank as usize).take(1).collect();
    }
    show_quality(settings, &quality, console)?;
    let labels = LabelKind::of(&dataset.labels);
    let identity = load::identity(&dataset, &assignment);
    Ok((Prepared { model, labels, metric, quality, identity }, inputs))
}

fn from_folder(
    settings: &mut RunSettings,
    folder: &PartitionFolder,
    wanted: Wanted,
    console: Console,
) -> Result<(Prepared, Vec<RankInput>)> {
    let manifest = folder.manifest();
    console.line(partitioned::describe(manifest))?;
    let parts = match wanted {
        Wanted::All => partitioned::read_all(folder, console)?,
        Wanted::Of(rank) => vec![console.during("reading a part", || folder.read_part(rank))?],
    };
    let labels = partitioned::labels(&parts)?;
    let metric = load::metric(settings, labels)?;
    load::check_class_weights(settings, labels)?;
    settings.metric = Some(metric);
    settings.threads = Some(settings.n_threads());
    let model = load::model(settings, manifest.n_features, labels)?;
    let labels = LabelKind::of(labels);
    let quality = manifest.trained_quality().clone();
    show_quality(settings, &quality, console)?;
    let inputs = parts.into_iter().map(|part| partitioned::rank_input(part, manifest.directed));
    let identity = manifest.id.clone();
    Ok((Prepared { model, labels, metric, quality, identity }, inputs.collect()))
}

/// What the parts cost, in a line.
fn show_quality(settings: &RunSettings, quality: &Quality, console: Console) -> Result<()> {
    if quality.n_parts == 1 {
        return Ok(());
    }
    console.line(format!(
        "{} parts ({}): {} directed edges between parts, {} halo rows",
        quality.n_parts, settings.partitioner, quality.cut_edges, quality.communication_volume
    ))
}

/// A graph in one line.
fn describe(dataset: &Dataset) -> String {
    let count = |role| dataset.split.count(role);
    let (n_features, n_classes) = (dataset.features.n_cols(), dataset.labels.n_classes() as usize);
    load::description(
        &dataset.name,
        [dataset.n_nodes(), dataset.graph.n_edges(), n_features, n_classes],
        [Role::Train, Role::Val, Role::Test].map(count),
    )
}

impl Prepared {
    /// The only rank's input, where one part was wanted.
    ///
    /// # Errors
    /// Fewer parts than ranks; no partitioner makes that.
    #[cfg_attr(
        not(feature = "mpi"),
        expect(dead_code, reason = "ranks of one process have it all")
    )]
    pub(crate) fn own(inputs: Vec<RankInput>) -> Result<RankInput> {
        inputs.into_iter().next().context("this rank has no part")
    }
}
