//! From a path to what each rank holds.

use std::path::Path;

use anyhow::{Context as _, Error, Result, ensure};
use sha2::{Digest as _, Sha256};
use sylvie::data::{self, shown};
use sylvie::gnn::{Metric, ModelConfig};
use sylvie::graph::{Assignment, Dataset, Labels, Role};
use sylvie::partition::{PartitionError, Quality, build_parts, quality};
use sylvie::pipeline::{PartData, RankInput};

use crate::console::{Console, counted};
use crate::fingerprint::hexadecimal;
use crate::settings::RunSettings;

/// Most weights of a network: what a 32-bit count holds, far more than a run could train.
const MAX_WEIGHTS: u64 = 1 << 31;
/// Stack of a thread that reads; no reader goes deep.
const READER_STACK_BYTES: usize = 2 << 20;

/// Reads the graph.
///
/// # Errors
/// Whatever keeps it from being read, and node or class counts that nothing could be trained on.
pub(crate) fn read(settings: &RunSettings, console: Console) -> Result<Dataset> {
    let options = settings.read_options();
    start_readers()?;
    let what = format!("reading {}", settings.shown_data());
    Ok(console.during(&what, || data::read(&settings.data, &options))?)
}

/// Starts the threads that read and generate graphs: those that nobody starts are started on first
/// use, and a refusal is then a panic.
fn start_readers() -> Result<()> {
    let builder = rayon::ThreadPoolBuilder::new().stack_size(READER_STACK_BYTES);
    // As text: what the system says is in it, and its source would say it once more.
    builder.build_global().map_err(|error| Error::msg(error.to_string())).context(
        "threads to read the graph cannot be started; RAYON_NUM_THREADS=1 takes as few as can be",
    )
}

/// The network for so many features and such labels.
///
/// # Errors
/// A network that cannot be built, or that would be too large.
pub(crate) fn model(
    settings: &RunSettings,
    n_features: usize,
    labels: &Labels,
) -> Result<ModelConfig> {
    let model = settings.model_config(n_features, labels.n_classes() as usize);
    model
        .check()
        .with_context(|| format!("{}: the network cannot be built", settings.shown_data()))?;
    let tensors = (0..model.n_layers()).flat_map(|layer| model.tensors(layer));
    let n_weights: u64 = tensors.map(|spec| (spec.n_rows * spec.n_cols) as u64).sum();
    ensure!(
        n_weights <= MAX_WEIGHTS,
        "the network would have {n_weights} weights, more than {MAX_WEIGHTS}; \
         take fewer --hidden columns, --layers or --heads"
    );
    Ok(model)
}

/// The metric that was asked for, or the one that suits the labels.
///
/// # Errors
/// A metric that is not defined for the labels.
pub(crate) fn metric(settings: &RunSettings, labels: &Labels) -> Result<Metric> {
    let is_multi = labels.is_multi();
    let suitable = if is_multi { Metric::MicroF1 } else { Metric::Accuracy };
    let metric = settings.metric.unwrap_or(suitable);
    ensure!(
        metric.fits(labels),
        "{metric} is defined for two classes or for nodes with several classes, and {} has {} \
         classes, one a node; take --metric accuracy",
        settings.shown_data(),
        labels.n_classes()
    );
    Ok(metric)
}

/// Checks that there is a class weight for each class, where they were given.
///
/// # Errors
/// More or fewer.
pub(crate) fn check_class_weights(settings: &RunSettings, labels: &Labels) -> Result<()> {
    let n_classes = labels.n_classes() as usize;
    if let Some(n_given) = settings.class_weights.n_given() {
        ensure!(
            n_given == n_classes,
            "--class-weights has {}, but {} has {n_classes} classes",
            counted(n_given as u64, "value"),
            settings.shown_data()
        );
    }
    Ok(())
}

/// A graph in one line: nodes, directed edges, features and classes; training, validation and test nodes.
pub(crate) fn description(name: &str, sizes: [usize; 4], roles: [usize; 3]) -> String {
    let [n_nodes, n_edges, n_features, n_classes] = sizes;
    let [n_train, n_val, n_test] = roles;
    format!(
        "{}: {n_nodes} nodes, {n_edges} directed edges, {n_features} features, {n_classes} classes; \
         {n_train} training, {n_val} validation, {n_test} test nodes",
        shown(Path::new(name)),
    )
}

/// One flag a node: whether it is trained on.
pub(crate) fn training_nodes(dataset: &Dataset) -> Vec<bool> {
    dataset.split.roles().iter().map(|&role| role == Role::Train).collect()
}

/// Assigns the nodes of the whole graph to parts, balanced over training nodes too, and orders them.
///
/// # Errors
/// What the partitioner refuses: more parts than nodes above all.
pub(crate) fn assign(
    settings: &RunSettings,
    dataset: &Dataset,
    console: Console,
) -> Result<Assignment> {
    let partitioner = settings.partitioner.partitioner(settings.objective, settings.seed);
    let train = training_nodes(dataset);
    let parts = counted(settings.parts, "part");
    let what = format!("splitting into {parts} ({})", partitioner.name());
    let graph = &dataset.graph;
    let split = || -> Result<Assignment, PartitionError> {
        let assignment = partitioner.partition(graph, &train, settings.parts)?;
        Ok(settings.order.apply(graph, assignment))
    };
    console
        .during(&what, split)
        .with_context(|| format!("{} cannot be split", settings.shown_data()))
}

/// Tells this split of this graph from others.
pub(crate) fn identity(dataset: &Dataset, assignment: &Assignment) -> String {
    let mut sum = Sha256::new();
    assignment.parts().iter().for_each(|part| sum.update(part.to_le_bytes()));
    if assignment.is_reordered() {
        let nodes = 0..dataset.n_nodes() as u32;
        nodes.for_each(|node| sum.update(assignment.place(node).to_le_bytes()));
    }
    let sum = hexadecimal(&sum.finalize());
    format!("{} nodes, {} edges, parts {sum}", dataset.n_nodes(), dataset.graph.n_edges())
}

/// Parts of the whole graph with their data.
pub(crate) fn whole_parts(dataset: &Dataset, assignment: &Assignment) -> Vec<PartData> {
    let parts = build_parts(&dataset.graph, assignment, None).into_iter();
    parts.map(|part| PartData::gather(dataset, part)).collect()
}

/// What each rank trains and evaluates on, and the quality of the split of what is trained on.
///
/// Inductive: parts of the graph of training nodes to train on, and of the whole graph to evaluate on.
pub(crate) fn rank_inputs(
    settings: &RunSettings,
    dataset: &Dataset,
    assignment: &Assignment,
) -> (Vec<RankInput>, Quality) {
    let train = training_nodes(dataset);
    let whole = whole_parts(dataset, assignment);
    if !settings.inductive {
        let inputs = whole.into_iter();
        let inputs = inputs.map(|training| RankInput { training, evaluation: None }).collect();
        return (inputs, quality(&dataset.graph, assignment, &train));
    }
    let parts = build_parts(&dataset.graph, assignment, Some(&train)).into_iter();
    let inputs = parts.zip(whole).map(|(part, whole)| RankInput {
        training: PartData::gather(dataset, part),
        evaluation: Some(whole),
    });
    (inputs.collect(), quality(&dataset.graph.induced(&train), assignment, &train))
}
