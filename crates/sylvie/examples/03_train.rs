//! A training run in a program: two ranks, as threads, train GraphSAGE at one bit a value.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use std::time::Instant;

use sylvie::comm::{Communicator, ThreadOptions, run_ranks};
use sylvie::data::{ReadOptions, read};
use sylvie::gnn::{ModelConfig, ModelKind};
use sylvie::graph::Role;
use sylvie::partition::{Metis, Partitioner, build_parts};
use sylvie::pipeline::{
    EpochRecord, Instruments, PartData, Preset, RankInput, TrainSettings, predict, train,
};
use sylvie::tensor::CpuBackend;

fn main() -> Result<(), Box<dyn Error>> {
    // A path to a graph of your own may stand here.
    let source = "synthetic:nodes=600,degree=10,features=16,classes=4";
    let dataset = read(source, &ReadOptions::default())?;

    // Each node goes to one part; a part knows its edges, its halo and which rows it sends.
    let assignment =
        Metis::default().partition(&dataset.graph, &dataset.split.mask(Role::Train), 2)?;
    let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
    let inputs: Vec<_> =
        parts.map(|part| RankInput::transductive(PartData::gather(&dataset, part))).collect();

    let n_classes = dataset.labels.n_classes() as usize;
    let model = ModelConfig::new(ModelKind::Sage, vec![dataset.features.n_cols(), 32, n_classes]);
    let settings = TrainSettings {
        n_epochs: 40,
        eval_every: 10,
        ..TrainSettings::new(model, Preset::SylvieS.policy())
    };

    let start = Instant::now();
    let clock = || start.elapsed();
    let outcomes = run_ranks(inputs.len(), &ThreadOptions::default(), |comm| {
        let rank = comm.rank();
        let mut observer = |record: &EpochRecord| {
            if let Some(scores) = record.scores.filter(|_| rank == 0) {
                let bytes_sent = record.payload_bytes + record.metadata_bytes;
                println!("epoch {}: loss {:.3}, {bytes_sent} bytes", record.epoch, record.loss);
                println!("  {scores:?}");
            }
            Ok(())
        };
        let (backend, instruments) = (CpuBackend::new(1), Instruments::clock(&clock));
        train(&backend, comm, &inputs[rank], &settings, instruments, &mut observer)
    })?;

    let outcome = &outcomes[0]; // every rank knows the same
    println!("best at epoch {}: {:?}", outcome.best_epoch, outcome.best);
    println!("an epoch would take {} bytes in full precision", outcome.fp32_bytes_per_epoch);
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcome.best.test > Some(0.6)); // chance is 0.25

    // The best weights, on the same parts: a row of logits for each own node.
    let predictions = run_ranks(inputs.len(), &ThreadOptions::default(), |comm| {
        let (data, weights) = (&inputs[comm.rank()].training, &outcome.weights);
        let (backend, instruments) = (CpuBackend::new(1), Instruments::clock(&clock));
        predict(&backend, comm, (&settings.model, weights), data, instruments)
    })?;
    let node = inputs[1].training.graph.own_ids[0];
    println!(
        "node {node}, the first of part 1: logits {:.2?}",
        &predictions[1].logits[..n_classes]
    );
    Ok(())
}
