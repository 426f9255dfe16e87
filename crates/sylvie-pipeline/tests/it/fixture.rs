//! Small graphs, and runs on them.

use std::time::Duration;

use sylvie_comm::{Communicator, RankError, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{ClassWeights, Metric, ModelConfig, ModelKind, NormKind};
use sylvie_graph::{
    Assignment, Cleaning, Dataset, DenseMatrix, Direction, Features, Labels, Role, SparseMatrix,
    Split, clean_edges,
};
use sylvie_partition::{Partitioner, Random, build_parts};
use sylvie_pipeline::{
    Clock, EpochRecord, Instruments, PartData, Preset, RankInput, TrainError, TrainOutcome,
    TrainSettings, train,
};
use sylvie_random::{Coordinates, Sequence, Stream};
use sylvie_tensor::{CpuBackend, Gather};

pub(crate) const N_CLASSES: u32 = 4;
pub(crate) const N_FEATURES: usize = 6;

/// What a graph is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) n_nodes: u32,
    pub(crate) direction: Direction,
    pub(crate) is_multi: bool,
    pub(crate) is_sparse: bool,
    pub(crate) seed: u64,
}

impl Default for Shape {
    fn default() -> Self {
        let direction = Direction::Symmetric;
        Self { n_nodes: 90, direction, is_multi: false, is_sparse: false, seed: 3 }
    }
}

/// A graph with classes as communities, a hub, and an isolated last node.
pub(crate) fn dataset(shape: Shape) -> Dataset {
    let n_nodes = shape.n_nodes;
    let draws = Coordinates::new(shape.seed, Stream::Generator).family();
    let mut sequence = Sequence::new(draws, 0);
    let class = |node: u32| node % N_CLASSES;
    let mut edges = Vec::new();
    for node in 0..n_nodes - 1 {
        for _ in 0..3 {
            let mut other = sequence.below(n_nodes - 1);
            if sequence.next_f64() < 0.7 {
                other = other - class(other) + class(node);
            }
            if other < n_nodes - 1 {
                edges.push((node, other));
            }
        }
        if node % 5 == 0 {
            edges.push((node, 1));
        }
    }
    let (graph, cleaning) =
        clean_edges(n_nodes as usize, &edges, shape.direction).expect("edges inside the graph");
    let mut values = Vec::new();
    for node in 0..n_nodes {
        for column in 0..N_FEATURES as u32 {
            let signal = if column == class(node) { 1.0 } else { 0.0 };
            let value = signal + sequence.next_f64() as f32 - 0.5;
            values.push(if shape.is_sparse && value < 0.2 { 0.0 } else { value });
        }
    }
    let dense = DenseMatrix::new(n_nodes as usize, N_FEATURES, values).expect("a matrix");
    let features =
        if shape.is_sparse { Features::Sparse(to_sparse(&dense)) } else { Features::Dense(dense) };
    let labels = if shape.is_multi {
        let row = |node: u32| (0..N_CLASSES).map(move |c| u8::from(c == class(node) || c == 2));
        Labels::multi(N_CLASSES, (0..n_nodes).flat_map(row).collect())
    } else {
        Labels::single(N_CLASSES, (0..n_nodes).map(class).collect())
    };
    let role = |node: u32| [Role::Train, Role::Val, Role::Train, Role::Test][node as usize / 7 % 4];
    Dataset {
        name: "fixture".to_owned(),
        graph,
        direction: shape.direction,
        cleaning: Cleaning { n_stored: edges.len(), ..cleaning },
        features,
        labels: labels.expect("labels"),
        split: Split::new((0..n_nodes).map(role).collect()),
    }
}

fn to_sparse(dense: &DenseMatrix) -> SparseMatrix {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..dense.n_rows() {
        for (column, &value) in dense.row(row).iter().enumerate() {
            if value != 0.0 {
                indices.push(column as u32);
                values.push(value);
            }
        }
        indptr.push(indices.len() as u64);
    }
    SparseMatrix::new(dense.n_cols(), &indptr, &indices, &values).expect("a sparse matrix")
}

pub(crate) fn random_parts(data: &Dataset, n_parts: u32) -> Assignment {
    let train = vec![false; data.n_nodes()];
    Random { seed: 1 }.partition(&data.graph, &train, n_parts).expect("an assignment")
}

pub(crate) fn settings(kind: ModelKind, n_epochs: u32) -> TrainSettings {
    TrainSettings {
        model: ModelConfig {
            kind,
            widths: vec![N_FEATURES, 8, 8, N_CLASSES as usize],
            n_linear: 0,
            n_heads: 2,
            dropout: 0.5,
            norm: NormKind::Layer,
        },
        exchange: Preset::Vanilla.policy(),
        gather: Gather::F32,
        n_epochs,
        learning_rate: 0.01,
        weight_decay: 0.0,
        class_weights: ClassWeights::None,
        seed: 11,
        eval_every: 5,
        patience: None,
        metric: Metric::Accuracy,
        initial_weights: None,
    }
}

pub(crate) struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// Which edges and nodes are trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Transductive,
    Inductive,
}

pub(crate) fn inputs(
    dataset: &Dataset,
    assignment: &Assignment,
    setting: Setting,
) -> Vec<RankInput> {
    let whole = build_parts(&dataset.graph, assignment, None);
    let whole = whole.into_iter().map(|part| PartData::gather(dataset, part));
    if setting == Setting::Transductive {
        return whole.map(|training| RankInput { training, evaluation: None }).collect();
    }
    let members: Vec<bool> =
        dataset.split.roles().iter().map(|&role| role == Role::Train).collect();
    let training = build_parts(&dataset.graph, assignment, Some(&members));
    training
        .into_iter()
        .zip(whole)
        .map(|(part, whole)| RankInput {
            training: PartData::gather(dataset, part),
            evaluation: Some(whole),
        })
        .collect()
}

/// Every epoch's record, and the outcome; checked to be the same on all ranks.
pub(crate) fn run(
    inputs: &[RankInput],
    settings: &TrainSettings,
    n_threads: usize,
) -> Result<(Vec<EpochRecord>, TrainOutcome), RankError<TrainError>> {
    let options = ThreadOptions::default();
    let mut ranks = run_ranks(inputs.len(), &options, |comm: &mut Threads<Vec<u8>>| {
        let backend = CpuBackend::new(n_threads);
        let input = &inputs[comm.rank()];
        let mut records = Vec::new();
        let mut observe = |record: &EpochRecord| {
            records.push(record.clone());
            Ok(())
        };
        let outcome =
            train(&backend, comm, input, settings, Instruments::clock(&NoClock), &mut observe)?;
        Ok::<_, TrainError>((records, outcome))
    })?;
    for rank in &ranks[1..] {
        assert_eq!(*rank, ranks[0], "every rank knows the same");
    }
    Ok(ranks.remove(0))
}

pub(crate) fn losses(records: &[EpochRecord]) -> Vec<f64> {
    records.iter().map(|record| record.loss).collect()
}
