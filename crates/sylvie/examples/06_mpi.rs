//! Ranks as processes, on one host or many, each of which reads its own part of a partition folder.
//!
//! ```sh
//! cargo run --release -- partition --parts 2 --out synthetic.parts
//! cargo build --release -p sylvie --features mpi --example 06_mpi
//! mpirun -n 2 --bind-to none target/release/examples/06_mpi synthetic.parts
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its results")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use sylvie::comm::{Communicator, Mpi, MpiFault, MpiOptions, mpi_library, run_mpi};
use sylvie::gnn::{ModelConfig, ModelKind};
use sylvie::graph::Direction;
use sylvie::partition::{FolderPart, Manifest, PartContents, PartitionFolder};
use sylvie::pipeline::{
    EpochRecord, Instruments, PartData, Preset, RankInput, TrainOutcome, TrainSettings, train,
};
use sylvie::tensor::CpuBackend;

type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: 06_mpi FOLDER")?;
    // A rank that fails ends the job on every host; what is said of it is said here.
    let report = |fault: &MpiFault| eprintln!("{fault}");
    let outcome = run_mpi(&MpiOptions::default(), report, |comm| run(comm, &folder))?;
    assert!(outcome.best.val.is_some());
    Ok(())
}

/// Trains as one rank of the job.
fn run(comm: &mut Mpi, folder: &std::path::Path) -> Result<TrainOutcome, AnyError> {
    let folder = PartitionFolder::open(folder)?;
    let manifest = folder.manifest();
    let (rank, n_ranks, n_parts) = (comm.rank(), comm.size(), manifest.n_parts());
    if n_parts as usize != n_ranks {
        return Err(format!("{n_parts} parts need {n_parts} ranks, not {n_ranks}").into());
    }
    let input = rank_input(manifest, folder.read_part(rank as u32)?);

    let widths = vec![manifest.n_features, 64, manifest.n_classes as usize];
    let model = ModelConfig::new(ModelKind::Sage, widths);
    let settings =
        TrainSettings { n_epochs: 30, ..TrainSettings::new(model, Preset::SylvieA.policy()) };
    if rank == 0 {
        println!("{n_ranks} ranks under {}", mpi_library());
    }
    let mut observer = |record: &EpochRecord| {
        if let Some(scores) = record.scores.filter(|_| rank == 0) {
            println!("epoch {}: loss {:.3}, {scores:?}", record.epoch, record.loss);
        }
        Ok(())
    };
    let start = Instant::now();
    let clock = || start.elapsed();
    let instruments = Instruments::clock(&clock);
    Ok(train(&CpuBackend::new(1), comm, &input, &settings, instruments, &mut observer)?)
}

/// What the folder holds of a part, as the pipeline takes it.
fn rank_input(manifest: &Manifest, part: FolderPart) -> RankInput {
    let direction = if manifest.directed { Direction::Directed } else { Direction::Symmetric };
    let data = |PartContents { graph, features, labels, roles }| PartData {
        graph,
        direction,
        features,
        labels,
        roles,
    };
    match part.training {
        None => RankInput::transductive(data(part.whole)),
        Some(training) => {
            RankInput { training: data(training), evaluation: Some(data(part.whole)) }
        }
    }
}
