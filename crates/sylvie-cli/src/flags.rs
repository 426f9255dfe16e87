//! The flags that decide a run. Keys of run.toml are the same words, and go through the same parsers.

use clap::Args;
use clap::builder::RangedI64ValueParser;
use sylvie::data::{Format, Normalization, SplitRule};
use sylvie::gnn::{ClassWeights, Metric, ModelKind, NormKind};
use sylvie::partition::{Method, NodeOrder, Objective};
use sylvie::tensor::Gather;

use crate::exchange::ExchangeFlags;

/// The largest seed that TOML can hold.
const MAX_SEED: u64 = i64::MAX as u64;
/// Parts are threads of one process, and each pair of them has its channels.
const MAX_PARTS: u32 = 1024;
/// Threads of all parts together.
pub(crate) const MAX_THREADS: u32 = 1024;

/// Which graph, and how it is read.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataFlags {
    /// Graph: a file or folder, or synthetic[:key=value,...] with the keys nodes, degree, features,
    /// classes, locality, seed, multi and noise. [default: synthetic]
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<String>,
    /// arrays, gnn-benchmark, graphsaint, heterophilous, ogb, reddit, planetoid, edge-list, matrix-market
    /// or synthetic, where the path does not tell.
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<Format>,
    /// Keep edges one way, from the node read to the node that reads; else inverses are added.
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(crate) directed: Option<bool>,
    /// What is done to features: none, standard (columns, over training nodes) or row (sums of 1).
    /// [default: none]
    #[arg(long, value_name = "NAME")]
    pub(crate) normalize: Option<Normalization>,
    /// Which nodes train, validate and test: given (the graph's own split), or drawn by --split-seed as
    /// random:0.6,0.2 (shares of the labelled nodes, the rest tests) or per-class:20,30 (nodes of each
    /// class). [default: given]
    #[arg(long, value_name = "RULE")]
    pub(crate) split: Option<SplitRule>,
    /// Seed of a drawn split. [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seed)]
    pub(crate) split_seed: Option<u64>,
    /// Which split where the graph has several, from 0. [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) split_index: Option<u32>,
}

/// Every setting of a run, where it is given.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) data: DataFlags,

    /// Kind of the graph layers: sage, gcn or gat. [default: sage]
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(crate) model: Option<ModelKind>,
    /// Layers, linear ones included. [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Network",
          value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) layers: Option<u32>,
    /// How many of the last layers are linear. [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Network",
          value_parser = clap::value_parser!(u32).range(0..=254))]
    pub(crate) linear_layers: Option<u32>,
    /// Columns between layers. [default: 128]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Network",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) hidden: Option<u32>,
    /// Attention heads of gat; they must divide --hidden. [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Network",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) heads: Option<u32>,
    /// Dropout rate at the input of every layer. [default: 0.5]
    #[arg(long, value_name = "RATE", help_heading = "Network", allow_negative_numbers = true,
          value_parser = rate)]
    pub(crate) dropout: Option<f32>,
    /// What stands between layers: layer or none. [default: layer]
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(crate) norm: Option<NormKind>,
    /// Weights to start from, as model.safetensors of a run has them; else they are drawn.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) init: Option<String>,

    /// Partition folder that `sylvie partition --out` wrote. It decides the graph, how it was read and
    /// split, and --inductive; such flags beside it must say the same.
    #[arg(long, value_name = "DIR", help_heading = "Parts and exchange")]
    pub(crate) partition: Option<String>,
    /// Parts of the graph; each is trained by a rank of its own. [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Parts and exchange", value_parser = parts)]
    pub(crate) parts: Option<u32>,
    /// How nodes are assigned to parts: metis, fennel, contiguous or random. [default: metis]
    #[arg(long, value_name = "NAME", help_heading = "Parts and exchange")]
    pub(crate) partitioner: Option<Method>,
    /// What metis makes small: volume (rows sent) or cut (edges between parts). [default: volume]
    #[arg(long, value_name = "NAME", help_heading = "Parts and exchange")]
    pub(crate) objective: Option<Objective>,
    /// Order of a part's nodes in memory: cluster (neighbours close together, which is faster where rows
    /// do not fit a cache), given, or auto. A partition folder has its own. [default: auto]
    #[arg(long, value_name = "NAME", help_heading = "Parts and exchange")]
    pub(crate) order: Option<NodeOrder>,
    #[command(flatten)]
    pub(crate) exchange: ExchangeFlags,

    /// Rows that the sums over neighbours of gcn and sage gather: f32, or bf16, rounded to half of the bytes
    /// and added up in f32. Evaluations and the first layer's sum, which is taken once, gather f32.
    /// [default: f32]
    #[arg(long, value_name = "TYPE", help_heading = "Training")]
    pub(crate) gather: Option<Gather>,
    /// Epochs at most. [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Training",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) epochs: Option<u32>,
    /// Learning rate of Adam. [default: 0.01]
    #[arg(long, value_name = "RATE", help_heading = "Training", allow_negative_numbers = true,
          value_parser = above_zero)]
    pub(crate) lr: Option<f32>,
    /// Weight decay, added to the gradient. [default: 0]
    #[arg(long, value_name = "RATE", help_heading = "Training", allow_negative_numbers = true,
          value_parser = at_least_zero)]
    pub(crate) weight_decay: Option<f32>,
    /// What each class counts in the loss: none (all the same), balanced (rare classes more: training nodes
    /// over classes times the class's own; where nodes have several, zeros over ones for the ones), or a
    /// number above 0 a class, as in 1,2.5. [default: none]
    #[arg(long, value_name = "WEIGHTS", help_heading = "Training", allow_hyphen_values = true)]
    pub(crate) class_weights: Option<ClassWeights>,
    /// Seed of weights, dropout, rounding and partitioner. [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Training",
          value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Train on edges between training nodes alone; validate and test on the whole graph.
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true, help_heading = "Training")]
    pub(crate) inductive: Option<bool>,
    /// Epochs from one evaluation, in full precision, to the next. [default: 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Training",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) eval_every: Option<u32>,
    /// Evaluations without a better validation score after which training ends; 0 for never.
    /// [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Training")]
    pub(crate) patience: Option<u32>,
    /// What is evaluated: accuracy, micro-f1, macro-f1 or roc-auc. [default: accuracy, or micro-f1 where nodes
    /// have several classes]
    #[arg(long, value_name = "NAME", help_heading = "Training")]
    pub(crate) metric: Option<Metric>,
    /// Epochs from one checkpoint in --out to the next; 0 for none. A run that is stopped by SIGINT or
    /// SIGTERM leaves one in any case. [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Training")]
    pub(crate) checkpoint_every: Option<u32>,
    /// Threads of each part; results do not depend on it. [default: cores / parts, at least 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Training", value_parser = max_threads())]
    pub(crate) threads: Option<u32>,
}

/// Parses a number of threads a part.
pub(crate) fn max_threads() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS))
}

/// Parses a number of parts that one process can run.
pub(crate) fn parts(word: &str) -> Result<u32, String> {
    let found: u64 = word.parse().map_err(|_| "not a whole number".to_owned())?;
    match u32::try_from(found) {
        Ok(parts) if (1..=MAX_PARTS).contains(&parts) => Ok(parts),
        _ => Err(format!("not between 1 and {MAX_PARTS}; each part is a thread of this process")),
    }
}

/// Parses a seed.
pub(crate) fn seed(word: &str) -> Result<u64, String> {
    let seed = word.parse().ok().filter(|&seed| seed <= MAX_SEED);
    seed.ok_or_else(|| format!("not a whole number from 0 to {MAX_SEED}"))
}

fn number(word: &str) -> Result<f32, String> {
    let value: f32 = word.parse().map_err(|_| "not a number".to_owned())?;
    let digits = word.split(['e', 'E']).next().unwrap_or_default();
    let has_digit = |range: std::ops::RangeInclusive<char>| digits.contains(|c| range.contains(&c));
    if value == 0.0 && has_digit('1'..='9') {
        return Err("too small for a 32-bit float, which would be 0".to_owned());
    }
    match value.is_finite() {
        true => Ok(value),
        false if has_digit('0'..='9') => Err("too large for a 32-bit float".to_owned()),
        false => Err("not a finite number".to_owned()),
    }
}

fn above_zero(word: &str) -> Result<f32, String> {
    number(word).and_then(|v| if v > 0.0 { Ok(v) } else { Err("not above 0".to_owned()) })
}

fn at_least_zero(word: &str) -> Result<f32, String> {
    number(word).and_then(|v| if v >= 0.0 { Ok(v) } else { Err("below 0".to_owned()) })
}

/// Parses a rate in [0, 1).
pub(crate) fn rate(word: &str) -> Result<f32, String> {
    let in_range = |v: f32| (0.0..1.0).contains(&v);
    number(word).and_then(|v| if in_range(v) { Ok(v) } else { Err("not in [0, 1)".to_owned()) })
}

/// Parses a probability above 0.
pub(crate) fn probability(word: &str) -> Result<f64, String> {
    let value: f64 = word.parse().map_err(|_| "not a number".to_owned())?;
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err("not in (0, 1]".to_owned()) }
}
