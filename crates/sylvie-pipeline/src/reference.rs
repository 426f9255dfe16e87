//! Whole networks on one and three parts against numbers from an independent implementation in double
//! precision.
//!
//! The cases lie in `testdata/`, or in the folder that `SYLVIE_REFERENCE_DIR` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sylvie_comm::{Communicator, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{ClassWeights, Metric, ModelConfig, NormKind, Weights};
use sylvie_graph::{
    Assignment, Cleaning, Dataset, DenseMatrix, Direction, Features, Labels, Role, Split,
    clean_edges,
};
use sylvie_partition::build_parts;
use sylvie_tensor::{CpuBackend, Gather, Wire};

use crate::communication::with_communication;
use crate::error::TrainError;
use crate::instruments::{Clock, Instruments};
use crate::part_data::{PartData, RankInput};
use crate::policy::{ExchangePolicy, Schedule};
use crate::settings::TrainSettings;
use crate::train::{Run, comm_needs};

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

fn folder() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    std::env::var_os("SYLVIE_REFERENCE_DIR").map_or_else(own, PathBuf::from)
}

fn values(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(entries) => entries.iter().flat_map(values).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn floats(value: &Value) -> Vec<f32> {
    values(value).iter().map(|&v| v as f32).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    values(value).iter().map(|&v| v as u32).collect()
}

fn dataset(case: &Value) -> Dataset {
    let n_nodes = case["n_nodes"].as_u64().expect("n_nodes") as usize;
    let edges: Vec<(u32, u32)> = ids(&case["edges"]).chunks(2).map(|e| (e[0], e[1])).collect();
    let (graph, _) = clean_edges(n_nodes, &edges, Direction::Symmetric).expect("edges");
    let n_classes = ids(&case["dims"]).last().copied().expect("dims");
    let labels = if case["multi_label"] == true {
        Labels::multi(n_classes, ids(&case["labels"]).iter().map(|&v| v as u8).collect())
    } else {
        Labels::single(n_classes, ids(&case["labels"]))
    };
    let x = floats(&case["x"]);
    let mut roles = vec![Role::None; n_nodes];
    for node in ids(&case["train"]) {
        roles[node as usize] = Role::Train;
    }
    Dataset {
        name: "reference".to_owned(),
        graph,
        direction: Direction::Symmetric,
        cleaning: Cleaning::default(),
        features: Features::Dense(DenseMatrix::new(n_nodes, x.len() / n_nodes, x).expect("x")),
        labels: labels.expect("labels"),
        split: Split::new(roles),
    }
}

fn policy(case: &Value) -> ExchangePolicy {
    let schedule = match case["mode"].as_str() {
        Some("async") => Schedule::Async,
        _ => Schedule::Sync,
    };
    let staleness = case["sync_every"].as_u64().unwrap_or(0) as u32;
    ExchangePolicy { schedule, staleness, ..ExchangePolicy::full_precision() }
}

fn settings(case: &Value, layers: &Value) -> TrainSettings {
    let model = ModelConfig {
        kind: case["kind"].as_str().expect("kind").parse().expect("a model"),
        widths: ids(&case["dims"]).iter().map(|&width| width as usize).collect(),
        n_linear: 0,
        n_heads: case["heads"].as_u64().expect("heads") as usize,
        dropout: 0.0,
        norm: NormKind::Layer,
    };
    let tensors = Weights::<CpuBackend>::specs(&model).into_iter().map(|(name, _)| {
        let mut path = name.split('.').skip(1);
        let layer: usize = path.next().and_then(|l| l.parse().ok()).expect("a layer");
        floats(&layers[layer][path.next().expect("a tensor")])
    });
    TrainSettings {
        model,
        exchange: policy(case),
        gather: Gather::F32,
        n_epochs: 8,
        learning_rate: 0.01,
        weight_decay: 0.0,
        class_weights: ClassWeights::None,
        seed: 1,
        eval_every: 100,
        patience: None,
        metric: Metric::Accuracy,
        initial_weights: Some(tensors.collect()),
    }
}

/// Loss of every epoch, and the gradients of the first three, all tensors in a row.
type Outcome = (Vec<f64>, Vec<Vec<f32>>);

/// A kind of machine and transport that a case runs on.
trait Place {
    /// Runs every rank, by [`run_rank`]; gives back what rank 0 had.
    fn run(inputs: &[RankInput], settings: &TrainSettings) -> Outcome;
}

/// The host, ranks being threads.
struct OnCpu;

impl Place for OnCpu {
    fn run(inputs: &[RankInput], settings: &TrainSettings) -> Outcome {
        let ranks = run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<_>| {
            run_rank(&CpuBackend::new(1), comm, inputs, settings)
        });
        ranks.expect("a run").remove(0)
    }
}

fn run_rank<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    inputs: &[RankInput],
    settings: &TrainSettings,
) -> Result<Outcome, TrainError> {
    let input = &inputs[comm.rank()];
    let instruments = Instruments::clock(&NoClock);
    let mut run = Run::new(backend, comm, input.into(), settings, instruments)?;
    let needs = comm_needs::<B>(settings);
    with_communication((backend, comm), instruments, needs, |handle| {
        let (mut losses, mut gradients) = (Vec::new(), Vec::new());
        for epoch in 0..settings.n_epochs {
            losses.push(run.epoch(handle, epoch, None)?.loss);
            if epoch < 3 {
                let reduced = run.gradients.as_ref().expect("reduced gradients");
                gradients.push(reduced.flatten(backend));
            }
        }
        run.drain(handle)?;
        Ok((losses, gradients))
    })
}

fn run_case<P: Place>(case: &Value) -> Outcome {
    let dataset = dataset(case);
    let parts = ids(&case["part"]);
    let n_parts = parts.iter().max().map_or(1, |part| part + 1);
    let assignment = Assignment::new(n_parts, parts).expect("parts");
    let inputs: Vec<RankInput> = build_parts(&dataset.graph, &assignment, None)
        .into_iter()
        .map(|part| RankInput { training: PartData::gather(&dataset, part), evaluation: None })
        .collect();
    P::run(&inputs, &settings(case, &case["weights"]))
}

fn check_case<P: Place>(name: &str, case: &Value) {
    let (losses, gradients) = run_case::<P>(case);
    let epochs = case["epochs"].as_array().expect("epochs");
    assert_eq!(losses.len(), epochs.len(), "{name}: epochs");
    for (epoch, (loss, expected)) in losses.iter().zip(epochs).enumerate() {
        let expected = expected["loss_mean"].as_f64().expect("loss_mean");
        let error = (loss - expected).abs() / expected.abs();
        assert!(error <= 1e-5, "{name}, epoch {epoch}: loss {loss} instead of {expected}");
    }
    let model = settings(case, &case["weights"]).model;
    for (epoch, found) in gradients.iter().enumerate() {
        let specs = Weights::<CpuBackend>::specs(&model);
        let expected: Vec<f64> = specs
            .iter()
            .flat_map(|(full, _)| {
                let mut path = full.split('.').skip(1);
                let layer: usize = path.next().and_then(|l| l.parse().ok()).expect("a layer");
                values(&epochs[epoch]["gradients"][layer][path.next().expect("a tensor")])
            })
            .collect();
        assert_eq!(found.len(), expected.len(), "{name}: gradients");
        let largest = expected.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
        for (place, (&f, &e)) in found.iter().zip(&expected).enumerate() {
            let error = (f64::from(f) - e).abs();
            assert!(error <= 1e-5 * largest, "{name}, epoch {epoch}, {place}: {f} instead of {e}");
        }
    }
}

fn check_cases<P: Place>(prefix: &str, n_least: usize) {
    let mut n_cases = 0;
    for entry in fs::read_dir(folder()).expect("the folder of reference cases") {
        let path = entry.expect("a folder entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name.starts_with(prefix) {
            let text = fs::read_to_string(&path).expect("a reference case");
            check_case::<P>(&name, &serde_json::from_str(&text).expect("a JSON file"));
            n_cases += 1;
        }
    }
    assert!(n_cases >= n_least, "{n_cases} cases {prefix}* in {}", folder().display());
}

#[test]
fn networks_on_one_part() {
    check_cases::<OnCpu>("train_", 4);
}

#[test]
fn networks_on_three_parts() {
    check_cases::<OnCpu>("sync_", 4);
}

/// Rows and gradients of the epoch before, zeros at first; every third epoch synchronous in half of
/// the cases.
#[test]
fn stale_networks_on_three_parts() {
    check_cases::<OnCpu>("async_", 8);
}

/// The same on emulated devices, whose messages stay there and go by NCCL, or come and go by the host.
mod devices {
    use sylvie_comm::{Nccl, NcclOptions};
    use sylvie_cuda::{CudaBackend, OnDevice};

    use super::*;

    struct ByNccl;

    impl Place for ByNccl {
        fn run(inputs: &[RankInput], settings: &TrainSettings) -> Outcome {
            sylvie_standins::install();
            let ranks =
                run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<_>| {
                    let backend = CudaBackend::<OnDevice>::open(comm.rank()).expect("a device");
                    let device = backend.device().clone();
                    let connected = Nccl::new(comm, device, NcclOptions::default());
                    let mut comm = connected.expect("ranks connected by NCCL");
                    run_rank(&backend, &mut comm, inputs, settings)
                });
            ranks.expect("a run").remove(0)
        }
    }

    /// One device for all ranks.
    struct ByTheHost;

    impl Place for ByTheHost {
        fn run(inputs: &[RankInput], settings: &TrainSettings) -> Outcome {
            sylvie_standins::install();
            let backend = CudaBackend::<sylvie_cuda::Staged>::open(3).expect("a device");
            let ranks =
                run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<_>| {
                    run_rank(&backend, comm, inputs, settings)
                });
            ranks.expect("a run").remove(0)
        }
    }

    #[test]
    fn networks_on_one_device() {
        check_cases::<ByNccl>("train_", 4);
        check_cases::<ByTheHost>("train_", 4);
    }

    #[test]
    fn networks_on_three_devices() {
        check_cases::<ByNccl>("sync_", 4);
    }

    #[test]
    fn stale_networks_on_three_devices() {
        check_cases::<ByNccl>("async_", 8);
    }

    #[test]
    fn three_parts_share_a_device() {
        check_cases::<ByTheHost>("sync_", 4);
        check_cases::<ByTheHost>("async_", 8);
    }
}
