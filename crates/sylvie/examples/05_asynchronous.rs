//! Asynchronous epochs with a bound on staleness, over a modelled link, watched step by step.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use std::sync::Mutex;
use std::time::Instant;

use sylvie::comm::{Communicator, ThreadOptions, run_ranks};
use sylvie::data::{ReadOptions, read};
use sylvie::gnn::{ModelConfig, ModelKind};
use sylvie::graph::Role;
use sylvie::partition::{Metis, Partitioner, build_parts};
use sylvie::pipeline::{
    Activity, EpochRecord, ExchangePolicy, Instruments, PartData, Preset, RankInput, Span, Step,
    TrainSettings, train,
};
use sylvie::tensor::CpuBackend;

fn main() -> Result<(), Box<dyn Error>> {
    let source = "synthetic:nodes=800,degree=10,features=16,classes=4";
    let dataset = read(source, &ReadOptions::default())?;
    let train_nodes = dataset.split.mask(Role::Train);
    let assignment = Metis::default().partition(&dataset.graph, &train_nodes, 2)?;
    let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
    let inputs: Vec<_> =
        parts.map(|part| RankInput::transductive(PartData::gather(&dataset, part))).collect();

    // Rows are used an epoch late, but for every fifth epoch.
    let policy = ExchangePolicy { staleness: 5, ..Preset::SylvieA.policy() };
    let model = ModelConfig::new(ModelKind::Sage, vec![16, 32, 4]);
    let settings =
        TrainSettings { n_epochs: 10, eval_every: 10, ..TrainSettings::new(model, policy) };
    // Each rank waits as long as this link would keep it waiting.
    let options = ThreadOptions { link: Some("1Gbps,2ms".parse()?), ..ThreadOptions::default() };

    let spans = Mutex::new(Vec::new());
    let tracer = |span: &Span| spans.lock().expect("no rank has panicked").push(*span);
    let start = Instant::now();
    let clock = || start.elapsed();
    let instruments = Instruments { clock: &clock, tracer: Some(&tracer) };
    run_ranks(inputs.len(), &options, |comm| {
        let rank = comm.rank();
        let mut observer = |record: &EpochRecord| {
            let times = &record.ranks[rank];
            if rank == 0 {
                let (computing, waiting) = (times.compute_ms, times.blocked_ms);
                print!("epoch {}: {computing:.1} ms computing, ", record.epoch);
                println!("{waiting:.1} waiting for rows, {:.1} hidden", times.hidden_ms);
            }
            Ok(())
        };
        train(&CpuBackend::new(1), comm, &inputs[rank], &settings, instruments, &mut observer)
    })?;

    let spans = spans.into_inner()?;
    println!("epoch 4, which is synchronous, on rank 0:");
    for span in spans.iter().filter(|span| (span.rank, span.epoch) == (0, 4)) {
        let (lane, ms) = (format!("{:?}", span.lane), (span.end - span.start).as_secs_f64() * 1e3);
        println!("  {lane:13} {} ({ms:.2} ms)", span.activity);
    }
    // What epochs 3 and 8 left under way is waited for and discarded: forward and backward, on each rank.
    let drains = |span: &&Span| matches!(span.activity, Activity::Step(Step::Drain(..)));
    let drained: Vec<_> = spans.iter().filter(drains).map(|span| span.epoch).collect();
    assert_eq!(drained.len(), 2 * 2 * 2);
    assert!(drained.iter().all(|&epoch| epoch == 4 || epoch == 9));
    Ok(())
}
