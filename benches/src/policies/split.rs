//! A graph, split: what each rank holds, and who reads how many rows of whom.

use anyhow::{Context as _, Result};
use sylvie::data::{self, ReadOptions};
use sylvie::gnn::{Metric, ModelConfig, ModelKind, NormKind};
use sylvie::graph::{Dataset, Role};
use sylvie::partition::{Method, Objective, build_parts};
use sylvie::pipeline::{PartData, RankInput};

const SEED: u64 = 1;
const N_LAYERS: usize = 3;
const DROPOUT: f32 = 0.5;

/// A graph in parts.
pub(crate) struct Split {
    pub(crate) inputs: Vec<RankInput>,
    /// `rows[owner][reader]`, in training.
    pub(crate) rows: Vec<Vec<usize>>,
    pub(crate) n_nodes: usize,
    pub(crate) n_edges: u64,
    pub(crate) metric: Metric,
    pub(crate) n_features: usize,
    pub(crate) n_classes: usize,
}

/// Which nodes are trained on, and whether anything is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Nodes {
    /// All of them train.
    All,
    /// Training nodes alone train, and nothing else is kept: for runs that are timed.
    TrainingOnly,
    /// Training nodes alone train, and all are evaluated.
    Inductive,
}

impl Split {
    /// Reads or generates a graph and splits it.
    ///
    /// # Errors
    /// A graph that cannot be read or split.
    pub(crate) fn read(source: &str, method: Method, n_parts: u32) -> Result<Self> {
        let dataset = data::read(source, &ReadOptions::default())?;
        Self::of(&dataset, method, n_parts, Nodes::All)
            .with_context(|| format!("{source} cannot be split into {n_parts} parts"))
    }

    /// Splits a graph.
    ///
    /// # Errors
    /// A graph that cannot be split.
    pub(crate) fn of(
        dataset: &Dataset,
        method: Method,
        n_parts: u32,
        nodes: Nodes,
    ) -> Result<Self> {
        let roles = dataset.split.roles();
        let train: Vec<bool> = roles.iter().map(|&role| role == Role::Train).collect();
        let partitioner = method.partitioner(Objective::Volume, SEED);
        let assignment = partitioner.partition(&dataset.graph, &train, n_parts)?;
        let only = (nodes != Nodes::All).then_some(train.as_slice());
        let parts = build_parts(&dataset.graph, &assignment, only);
        let mut rows = vec![vec![0; parts.len()]; parts.len()];
        for part in &parts {
            for send in &part.plan.sends {
                rows[part.part as usize][send.reader as usize] = send.rows.len();
            }
        }
        let whole = match nodes {
            Nodes::Inductive => build_parts(&dataset.graph, &assignment, None),
            Nodes::All | Nodes::TrainingOnly => Vec::new(),
        };
        let mut whole = whole.into_iter().map(|part| PartData::gather(dataset, part));
        let inputs = parts.into_iter().map(|part| RankInput {
            training: PartData::gather(dataset, part),
            evaluation: whole.next(),
        });
        Ok(Self {
            rows,
            inputs: inputs.collect(),
            n_nodes: dataset.n_nodes(),
            n_edges: dataset.graph.n_edges() as u64,
            metric: if dataset.labels.is_multi() { Metric::MicroF1 } else { Metric::Accuracy },
            n_features: dataset.features.n_cols(),
            n_classes: dataset.labels.n_classes() as usize,
        })
    }

    /// Three layers with `n_hidden` columns between them.
    pub(crate) fn three_layers(&self, kind: ModelKind, n_hidden: usize) -> ModelConfig {
        let mut widths = vec![n_hidden; N_LAYERS + 1];
        (widths[0], widths[N_LAYERS]) = (self.n_features, self.n_classes);
        let norm = NormKind::Layer;
        ModelConfig { kind, widths, n_linear: 0, n_heads: 1, dropout: DROPOUT, norm }
    }

    /// Halo rows of all parts.
    pub(crate) fn n_halo_rows(&self) -> usize {
        self.rows.iter().flatten().sum()
    }
}
