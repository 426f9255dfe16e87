//! A training run: two ranks, as threads, train GraphSAGE on a generated graph at one bit a value.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use std::time::{Duration, Instant};

use sylvie::comm::{Communicator, ThreadOptions, run_ranks};
use sylvie::data::{ReadOptions, read};
use sylvie::gnn::{Metric, ModelConfig, ModelKind, NormKind};
use sylvie::graph::{Dataset, Role};
use sylvie::partition::{Metis, Partitioner, build_parts};
use sylvie::pipeline::{
    Clock, EpochRecord, Instruments, PartData, Preset, RankInput, TrainSettings, train,
};
use sylvie::tensor::CpuBackend;

/// Time since the run began.
struct SinceStart(Instant);

impl Clock for SinceStart {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let source = "synthetic:nodes=600,degree=10,features=16,classes=4";
    let dataset = read(source, &ReadOptions::default())?;
    let inputs = split(&dataset, 2)?;
    let settings = settings(&dataset);
    let clock = SinceStart(Instant::now());
    let outcomes = run_ranks(inputs.len(), &ThreadOptions::default(), |comm| {
        let is_first = comm.rank() == 0;
        let mut observer = |record: &EpochRecord| {
            if let Some(scores) = record.scores.filter(|_| is_first) {
                let bytes_sent = record.payload_bytes + record.metadata_bytes;
                println!("epoch {}: loss {:.3}, {bytes_sent} bytes", record.epoch, record.loss);
                println!("  {scores:?}");
            }
            Ok(())
        };
        let (backend, input) = (CpuBackend::new(1), &inputs[comm.rank()]);
        let instruments = Instruments::clock(&clock);
        train(&backend, comm, input, &settings, instruments, &mut observer)
    })?;
    let outcome = &outcomes[0]; // every rank knows the same
    println!("best at epoch {}: {:?}", outcome.best_epoch, outcome.best);
    println!("an epoch would take {} bytes in full precision", outcome.fp32_bytes_per_epoch);
    Ok(())
}

/// What each of `n_parts` ranks holds.
fn split(dataset: &Dataset, n_parts: u32) -> Result<Vec<RankInput>, Box<dyn Error>> {
    let roles = dataset.split.roles();
    let is_trained_on: Vec<_> = roles.iter().map(|&role| role == Role::Train).collect();
    let assignment = Metis::default().partition(&dataset.graph, &is_trained_on, n_parts)?;
    let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
    let inputs =
        parts.map(|part| RankInput { training: PartData::gather(dataset, part), evaluation: None });
    Ok(inputs.collect())
}

/// A network of two layers, trained at one bit a value.
fn settings(dataset: &Dataset) -> TrainSettings {
    let model = ModelConfig {
        kind: ModelKind::Sage,
        widths: vec![dataset.features.n_cols(), 32, dataset.labels.n_classes() as usize],
        n_linear: 0,
        n_heads: 1,
        dropout: 0.5,
        norm: NormKind::Layer,
    };
    TrainSettings {
        model,
        exchange: Preset::SylvieS.policy(),
        n_epochs: 40,
        learning_rate: 0.01,
        weight_decay: 0.0,
        seed: 1,
        eval_every: 10,
        patience: None,
        metric: Metric::Accuracy,
        initial_weights: None,
    }
}
