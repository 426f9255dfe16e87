//! Every setting of a run, with its value.

use std::fmt::Display;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Serialize, Serializer};
use sylvie::data::{Format, Normalization, ReadOptions, SplitRule, shown};
use sylvie::gnn::{ClassWeights, Metric, ModelConfig, ModelKind, NormKind};
use sylvie::graph::Direction;
use sylvie::partition::{Method, NodeOrder, Objective};
use sylvie::pipeline::{PolicyError, TrainSettings};
use sylvie::tensor::Gather;

use crate::console::counted;
use crate::exchange::ExchangeSettings;
use crate::flags::{DataFlags, MAX_THREADS, RunFlags};

/// What run.toml holds. Its keys are the flags', with underscores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunSettings {
    /// Graph.
    pub(crate) data: String,
    /// Format, where it was named.
    #[serde(serialize_with = "optional_word", skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<Format>,
    /// Whether edges are kept one way.
    pub(crate) directed: bool,
    /// What is done to features.
    #[serde(serialize_with = "word")]
    pub(crate) normalize: Normalization,
    /// Which split.
    #[serde(serialize_with = "word")]
    pub(crate) split: SplitRule,
    /// Seed of a drawn split.
    pub(crate) split_seed: u64,
    /// Which of several splits.
    pub(crate) split_index: u32,
    /// Kind of the graph layers.
    #[serde(serialize_with = "word")]
    pub(crate) model: ModelKind,
    /// All layers.
    pub(crate) layers: u32,
    /// The last of them that are linear.
    pub(crate) linear_layers: u32,
    /// Columns between layers.
    pub(crate) hidden: u32,
    /// Attention heads.
    pub(crate) heads: u32,
    /// Dropout rate.
    pub(crate) dropout: f32,
    /// What stands between layers.
    #[serde(serialize_with = "word")]
    pub(crate) norm: NormKind,
    /// File of the starting weights, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) init: Option<String>,
    /// Partition folder, where there is one; it decides what is read and how it is split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<String>,
    /// Parts.
    pub(crate) parts: u32,
    /// How nodes are assigned to parts.
    #[serde(serialize_with = "word")]
    pub(crate) partitioner: Method,
    /// What metis makes small.
    #[serde(serialize_with = "word")]
    pub(crate) objective: Objective,
    /// In which order a part lists its nodes.
    #[serde(serialize_with = "word")]
    pub(crate) order: NodeOrder,
    /// How boundary rows are exchanged.
    #[serde(flatten)]
    pub(crate) exchange: ExchangeSettings,
    /// Rows that sums over neighbours gather.
    #[serde(serialize_with = "word")]
    pub(crate) gather: Gather,
    /// Epochs at most.
    pub(crate) epochs: u32,
    /// Learning rate.
    pub(crate) lr: f32,
    /// Weight decay.
    pub(crate) weight_decay: f32,
    /// What each class counts in the loss.
    #[serde(serialize_with = "word")]
    pub(crate) class_weights: ClassWeights,
    /// Seed of weights, dropout, rounding and partitioner.
    pub(crate) seed: u64,
    /// Whether training sees edges between training nodes alone.
    pub(crate) inductive: bool,
    /// Epochs from one evaluation to the next.
    pub(crate) eval_every: u32,
    /// Evaluations without a better score after which training ends; 0 for never.
    pub(crate) patience: u32,
    /// What is evaluated; `None` until the labels are known.
    #[serde(serialize_with = "optional_word", skip_serializing_if = "Option::is_none")]
    pub(crate) metric: Option<Metric>,
    /// Epochs from one checkpoint to the next; 0 for none.
    pub(crate) checkpoint_every: u32,
    /// Threads of each part; `None` for all cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<u32>,
}

impl Default for RunSettings {
    fn default() -> Self {
        let read = ReadOptions::default();
        Self {
            data: "synthetic".to_owned(),
            format: None,
            directed: read.direction == Direction::Directed,
            normalize: read.normalization,
            split: read.split,
            split_seed: read.split_seed,
            split_index: read.split_index as u32,
            model: ModelKind::Sage,
            layers: 3,
            linear_layers: 0,
            hidden: 128,
            heads: 4,
            dropout: 0.5,
            norm: NormKind::Layer,
            init: None,
            partition: None,
            parts: 4,
            partitioner: Method::Metis,
            objective: Objective::Volume,
            order: NodeOrder::Auto,
            exchange: ExchangeSettings::default(),
            gather: Gather::F32,
            epochs: 100,
            lr: 0.01,
            weight_decay: 0.0,
            class_weights: ClassWeights::None,
            seed: 1,
            inductive: false,
            eval_every: 5,
            patience: 0,
            metric: None,
            checkpoint_every: 0,
            threads: None,
        }
    }
}

/// A value as its word.
pub(crate) fn word<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn optional_word<T: Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// Takes `value` where it is given.
pub(crate) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Takes `value` where it is given, for what has no default.
fn set_optional<T>(place: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *place = value;
    }
}

impl RunSettings {
    /// The defaults, but for what `flags` give.
    pub(crate) fn of_data(flags: DataFlags) -> Self {
        let mut settings = Self::default();
        settings.apply_data(flags);
        settings
    }

    /// Takes what is given.
    pub(crate) fn apply(&mut self, flags: RunFlags) {
        self.apply_data(flags.data);
        self.exchange.apply(flags.exchange);
        set(&mut self.model, flags.model);
        set(&mut self.layers, flags.layers);
        set(&mut self.linear_layers, flags.linear_layers);
        set(&mut self.hidden, flags.hidden);
        set(&mut self.heads, flags.heads);
        set(&mut self.dropout, flags.dropout);
        set(&mut self.norm, flags.norm);
        set_optional(&mut self.init, flags.init);
        set_optional(&mut self.partition, flags.partition);
        set(&mut self.parts, flags.parts);
        set(&mut self.partitioner, flags.partitioner);
        set(&mut self.objective, flags.objective);
        set(&mut self.order, flags.order);
        set(&mut self.gather, flags.gather);
        set(&mut self.epochs, flags.epochs);
        set(&mut self.lr, flags.lr);
        set(&mut self.weight_decay, flags.weight_decay);
        set(&mut self.class_weights, flags.class_weights);
        set(&mut self.seed, flags.seed);
        set(&mut self.inductive, flags.inductive);
        set(&mut self.eval_every, flags.eval_every);
        set(&mut self.patience, flags.patience);
        set_optional(&mut self.metric, flags.metric);
        set(&mut self.checkpoint_every, flags.checkpoint_every);
        set_optional(&mut self.threads, flags.threads);
    }

    fn apply_data(&mut self, flags: DataFlags) {
        set(&mut self.data, flags.data);
        set_optional(&mut self.format, flags.format);
        set(&mut self.directed, flags.directed);
        set(&mut self.normalize, flags.normalize);
        set(&mut self.split, flags.split);
        set(&mut self.split_seed, flags.split_seed);
        set(&mut self.split_index, flags.split_index);
    }

    /// Checks what no single setting tells, before the data are read.
    ///
    /// # Errors
    /// The first combination that cannot be.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_run()?;
        let n_threads = u64::from(self.parts) * u64::from(self.n_threads());
        ensure!(
            n_threads <= u64::from(MAX_THREADS),
            "{} of {} are more than {MAX_THREADS} threads",
            counted(self.parts, "part"),
            counted(self.n_threads(), "thread")
        );
        Ok(())
    }

    /// The same for one rank among several processes, which share no limit of threads.
    ///
    /// # Errors
    /// As [`RunSettings::check`].
    pub(crate) fn check_run(&self) -> Result<()> {
        if self.model == ModelKind::Gcn && self.directed {
            bail!(
                "gcn is defined for symmetric graphs only and --directed keeps edges one way; \
                 leave --directed out, or take --model sage or gat"
            );
        }
        // Widths of the data are not known yet, and cannot be zero.
        let model = self.model_config(1, 1);
        model.check().context("the network cannot be built")?;
        self.check_exchange(&model)?;
        Ok(())
    }

    fn check_exchange(&self, model: &ModelConfig) -> Result<(), PolicyError> {
        let ExchangeSettings { bits_forward, bits_backward, .. } = &self.exchange;
        let exchange = self.exchange.policy();
        let settings =
            TrainSettings { gather: self.gather, ..TrainSettings::new(model.clone(), exchange) };
        settings.check().map_err(|error| match error {
            // Most likely --bits was given.
            PolicyError::Codecs { found, expected, .. } if bits_forward == bits_backward => {
                PolicyError::Codecs { flag: "bits", found, expected }
            }
            other => other,
        })
    }

    /// The graph, for messages.
    pub(crate) fn shown_data(&self) -> String {
        shown(Path::new(&self.data))
    }

    /// How the graph is read.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            direction: if self.directed { Direction::Directed } else { Direction::Symmetric },
            split: self.split,
            split_seed: self.split_seed,
            split_index: self.split_index as usize,
            normalization: self.normalize,
        }
    }

    /// The network for so many features and classes.
    pub(crate) fn model_config(&self, n_inputs: usize, n_classes: usize) -> ModelConfig {
        let mut widths = vec![self.hidden as usize; self.layers as usize + 1];
        widths[0] = n_inputs;
        widths[self.layers as usize] = n_classes;
        ModelConfig {
            kind: self.model,
            widths,
            n_linear: self.linear_layers as usize,
            n_heads: self.heads as usize,
            dropout: self.dropout,
            norm: self.norm,
        }
    }

    /// What the pipeline is told.
    pub(crate) fn train_settings(
        &self,
        model: ModelConfig,
        metric: Metric,
        initial_weights: Option<Vec<Vec<f32>>>,
    ) -> TrainSettings {
        TrainSettings {
            model,
            exchange: self.exchange.policy(),
            gather: self.gather,
            n_epochs: self.epochs,
            learning_rate: self.lr,
            weight_decay: self.weight_decay,
            class_weights: self.class_weights.clone(),
            seed: self.seed,
            eval_every: self.eval_every,
            patience: (self.patience > 0).then_some(self.patience),
            metric,
            initial_weights,
        }
    }

    /// Threads of each part.
    pub(crate) fn n_threads(&self) -> u32 {
        let n_cores = thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.threads.unwrap_or_else(|| (n_cores.min(MAX_THREADS) / self.parts).max(1))
    }

    /// The text of run.toml.
    ///
    /// # Errors
    /// None that is known of: every value has a form in TOML.
    pub(crate) fn to_toml(&self) -> Result<String> {
        toml::to_string(self).context("the settings cannot be written")
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use toml::{Table, Value};

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_help_tells_the_defaults() {
        let defaults: Table = RunSettings::default().to_toml().unwrap().parse().unwrap();
        let command = Cli::command();
        let train = command.find_subcommand("train").unwrap();
        for (key, value) in &defaults {
            let argument = train.get_arguments().find(|a| a.get_id() == key.as_str());
            let help = argument.unwrap_or_else(|| panic!("no flag {key}")).get_help().unwrap();
            let help = help.to_string();
            let said = help.rsplit_once("[default: ").and_then(|(_, rest)| rest.strip_suffix(']'));
            let value = match value {
                Value::String(word) => word.clone(),
                other => other.to_string(),
            };
            let same_number = said.and_then(|s| s.parse::<f64>().ok()) == value.parse::<f64>().ok();
            assert!(said == Some(&value) || same_number, "{key} is {value}: {help}");
        }
    }

    #[test]
    fn what_cannot_be_combined_is_refused() {
        let refused = |change: fn(&mut RunSettings)| {
            let mut settings = RunSettings::default();
            change(&mut settings);
            format!("{:#}", settings.check().unwrap_err())
        };
        let directed_gcn = refused(|s| (s.model, s.directed) = (ModelKind::Gcn, true));
        assert!(directed_gcn.contains("--directed"), "{directed_gcn}");
        let heads = refused(|s| (s.model, s.heads) = (ModelKind::Gat, 3));
        assert!(heads.contains("3 heads"), "{heads}");
        let linear = refused(|s| s.linear_layers = 3);
        assert!(linear.contains("no graph layer"), "{linear}");
        let threads = refused(|s| (s.parts, s.threads) = (1024, Some(2)));
        assert!(threads.contains("1024 parts of 2 threads"), "{threads}");
        let widths = refused(|s| {
            s.exchange.bits_backward = "4,2,1".parse().unwrap();
            s.exchange.bits_forward = "4,2,1".parse().unwrap();
        });
        assert!(widths.contains("--bits has 3 values, but 2 layers"), "{widths}");
        let backward = refused(|s| s.exchange.bits_backward = "4,2,1".parse().unwrap());
        assert!(backward.contains("--bits-backward has 3 values"), "{backward}");
        assert!(RunSettings::default().check().is_ok());
    }

    #[test]
    fn threads_share_the_cores() {
        let with_parts = |parts| RunSettings { parts, ..RunSettings::default() };
        assert_eq!(with_parts(1024).n_threads(), 1);
        assert!(with_parts(1).n_threads() >= with_parts(2).n_threads());
        assert_eq!(RunSettings { threads: Some(7), ..with_parts(4) }.n_threads(), 7);
    }
}
