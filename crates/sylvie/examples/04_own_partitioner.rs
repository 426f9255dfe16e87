//! A partitioner and an exchange policy of one's own, beside those that are there.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use std::mem::replace;
use std::time::Instant;

use sylvie::comm::{Communicator, ThreadOptions, run_ranks};
use sylvie::data::{ReadOptions, read};
use sylvie::gnn::{ModelConfig, ModelKind};
use sylvie::graph::{Assignment, Csr, Role};
use sylvie::lowbit::{RowCodec, Width};
use sylvie::partition::{Metis, PartitionError, Partitioner, Random, build_parts};
use sylvie::pipeline::{
    EpochRecord, ExchangePolicy, Instruments, PartData, RankInput, TrainSettings, train,
};
use sylvie::tensor::CpuBackend;

type Parts = Result<Assignment, PartitionError>;

/// Cuts a breadth-first order of the nodes into equal pieces.
struct BreadthFirst;

impl Partitioner for BreadthFirst {
    fn partition(&self, graph: &Csr, _: &[bool], n_parts: u32) -> Parts {
        let n_nodes = graph.n_rows();
        if n_parts == 0 || n_parts as usize > n_nodes {
            return Err(PartitionError::TooManyParts { n_parts, n_nodes });
        }
        let (mut order, mut is_seen) = (Vec::with_capacity(n_nodes), vec![false; n_nodes]);
        for root in 0..n_nodes {
            let mut next = order.len();
            if !replace(&mut is_seen[root], true) {
                order.push(root);
            }
            while next < order.len() {
                let neighbours = graph.row(order[next]).iter().map(|&node| node as usize);
                order.extend(neighbours.filter(|&node| !replace(&mut is_seen[node], true)));
                next += 1;
            }
        }
        let mut parts = vec![0; n_nodes];
        let piece = |place: usize| (place * n_parts as usize / n_nodes) as u32;
        order.iter().enumerate().for_each(|(place, &node)| parts[node] = piece(place));
        Ok(Assignment::new(n_parts, parts).expect("part numbers below the number of parts"))
    }
    fn name(&self) -> &str {
        "breadth-first"
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let source = "synthetic:nodes=400,degree=8,features=16,classes=8,locality=0.95";
    let dataset = read(source, &ReadOptions::default())?;
    // Four bits forward, half precision backward, and own rows are summed while they travel.
    let backward = vec![RowCodec::new(Width::F16)];
    let policy = ExchangePolicy::uniform(RowCodec::new(Width::Four));
    let policy = ExchangePolicy { backward, overlap: true, ..policy };
    let model = ModelConfig::new(ModelKind::Gcn, vec![16, 32, 32, 8]);
    let settings = TrainSettings { n_epochs: 20, ..TrainSettings::new(model, policy) };
    let (start, mut bytes) = (Instant::now(), Vec::new());
    let clock = || start.elapsed();
    let methods: [&dyn Partitioner; 3] = [&Random { seed: 1 }, &BreadthFirst, &Metis::default()];
    for method in methods {
        let assignment = method.partition(&dataset.graph, &dataset.split.mask(Role::Train), 2)?;
        let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
        let inputs: Vec<_> =
            parts.map(|part| RankInput::transductive(PartData::gather(&dataset, part))).collect();
        let outcomes = run_ranks(2, &ThreadOptions::default(), |comm| {
            let (backend, input) = (CpuBackend::new(1), &inputs[comm.rank()]);
            let mut observer = |_: &EpochRecord| Ok(());
            train(&backend, comm, input, &settings, Instruments::clock(&clock), &mut observer)
        })?;
        let fp32 = outcomes[0].fp32_bytes_per_epoch;
        println!("{}: {fp32} bytes in full precision, {:?}", method.name(), outcomes[0].best);
        bytes.push(fp32);
    }
    assert!(bytes[2] < bytes[1] && bytes[1] < bytes[0]); // fewer rows cross the split
    Ok(())
}
