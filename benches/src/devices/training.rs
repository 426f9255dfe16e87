//! The same training on host and device, by every transport that one device allows.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use sylvie::comm::{Communicator, Nccl, NcclOptions, RankError, ThreadOptions, Threads, run_ranks};
use sylvie::cuda::{CudaBackend, OnDevice, Staged};
use sylvie::data::{ReadOptions, read};
use sylvie::gnn::{ClassWeights, Metric, ModelConfig, ModelKind, NormKind};
use sylvie::graph::{Dataset, Role};
use sylvie::partition::{Metis, Partitioner, build_parts};
use sylvie::pipeline::{
    Clock, EpochRecord, Instruments, PartData, Preset, RankInput, TrainSettings, train,
};
use sylvie::tensor::{CpuBackend, Gather, Wire};

use super::Finding;

/// How far the first epochs' losses may be from the host's: rounding, no more.
const TOLERANCE: f64 = 1e-4;
/// Epochs whose losses are compared; later ones may drift apart by what rounding does to training.
const N_COMPARED: usize = 5;

struct SinceStart(Instant);

impl Clock for SinceStart {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

struct Case {
    inputs: Vec<RankInput>,
    settings: TrainSettings,
}

/// Loss of every epoch, and milliseconds of one.
type Outcome = (Vec<f64>, f64);

impl Case {
    fn new(
        dataset: &Dataset,
        kind: ModelKind,
        n_parts: u32,
        preset: Preset,
        n_epochs: u32,
    ) -> Result<Self> {
        let roles = dataset.split.roles();
        let train: Vec<_> = roles.iter().map(|&role| role == Role::Train).collect();
        let assignment = Metis::default().partition(&dataset.graph, &train, n_parts)?;
        let parts = build_parts(&dataset.graph, &assignment, None).into_iter();
        let inputs = parts
            .map(|part| RankInput { training: PartData::gather(dataset, part), evaluation: None });
        let model = ModelConfig {
            kind,
            widths: vec![dataset.features.n_cols(), 64, 64, dataset.labels.n_classes() as usize],
            n_linear: 0,
            n_heads: 2,
            dropout: 0.5,
            norm: NormKind::Layer,
        };
        let settings = TrainSettings {
            model,
            exchange: preset.policy(),
            gather: Gather::F32,
            n_epochs,
            learning_rate: 0.01,
            weight_decay: 0.0,
            class_weights: ClassWeights::None,
            seed: 1,
            eval_every: n_epochs,
            patience: None,
            metric: Metric::Accuracy,
            initial_weights: None,
        };
        Ok(Self { inputs: inputs.collect(), settings })
    }

    fn rank<B: Wire, C: Communicator<Buffer = B::Bytes>>(
        &self,
        backend: &B,
        comm: &mut C,
    ) -> Result<Outcome> {
        let clock = SinceStart(Instant::now());
        let (mut losses, mut times) = (Vec::new(), Vec::new());
        let mut observer = |record: &EpochRecord| {
            losses.push(record.loss);
            times.push(record.epoch_ms);
            Ok(())
        };
        let input = &self.inputs[comm.rank()];
        let instruments = Instruments::clock(&clock);
        train(backend, comm, input, &self.settings, instruments, &mut observer)?;
        times.sort_by(f64::total_cmp);
        Ok((losses, times[times.len() / 2]))
    }

    fn threads<B: Wire<Bytes = Vec<u8>>>(&self, backend: &B) -> Result<Outcome> {
        let body = |comm: &mut Threads<Vec<u8>>| self.rank(backend, comm);
        first(run_ranks(self.inputs.len(), &ThreadOptions::default(), body))
    }

    fn nccl(&self, backend: &CudaBackend<OnDevice>) -> Result<Outcome> {
        let body = |comm: &mut Threads<Vec<u8>>| {
            let device = backend.device().clone();
            self.rank(backend, &mut Nccl::new(comm, device, NcclOptions::default())?)
        };
        first(run_ranks(self.inputs.len(), &ThreadOptions::default(), body))
    }
}

fn first(outcome: Result<Vec<Outcome>, RankError<anyhow::Error>>) -> Result<Outcome> {
    let outcome = outcome.map_err(|error| anyhow::anyhow!("{error:#}"));
    outcome?.into_iter().next().context("a run has a rank")
}

/// Trains on both, and compares the losses.
///
/// # Errors
/// A graph that cannot be generated. Runs that fail are findings.
pub(crate) fn compare(backend: &CudaBackend<Staged>, is_small: bool) -> Result<Vec<Finding>> {
    let (source, n_epochs) = if is_small {
        ("synthetic:nodes=120,degree=6,features=12,classes=4", 6)
    } else {
        ("synthetic:nodes=50000,degree=20,features=64,classes=10", 30)
    };
    let dataset = read(source, &ReadOptions::default())?;
    let on_device = CudaBackend::<OnDevice>::on(backend.device().clone())?;
    let mut findings = Vec::new();
    for kind in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        let whole = Case::new(&dataset, kind, 1, Preset::Vanilla, n_epochs)?;
        let host = whole.threads(&CpuBackend::new(1))?;
        findings.push(judge(&format!("{kind}, one rank"), &host, whole.threads(backend)));
        findings.push(judge(&format!("{kind}, one rank, NCCL"), &host, whole.nccl(&on_device)));
        for preset in [Preset::Vanilla, Preset::SylvieS, Preset::SylvieA] {
            let halves = Case::new(&dataset, kind, 2, preset, n_epochs)?;
            let host = halves.threads(&CpuBackend::new(1))?;
            let name = format!("{kind}, {preset}, two ranks share it");
            findings.push(judge(&name, &host, halves.threads(backend)));
        }
    }
    Ok(findings)
}

fn judge(name: &str, (expected, host_ms): &Outcome, found: Result<Outcome>) -> Finding {
    let name = format!("training: {name}");
    match found {
        Err(error) => Finding::new(name, false, format!("{error:#}"), json!(null)),
        Ok((losses, ms)) => {
            let pairs = expected.iter().zip(&losses).take(N_COMPARED);
            let error = pairs.map(|(e, f)| (e - f).abs() / e.abs()).fold(0.0, f64::max);
            let holds = losses.len() == expected.len() && error <= TOLERANCE;
            let text = format!(
                "losses within {error:.1e} of the host's, {ms:.2} ms an epoch (host, one thread: {host_ms:.1})"
            );
            let value =
                json!({ "losses": losses, "host": expected, "epoch_ms": ms, "host_ms": host_ms });
            Finding::new(name, holds, text, value)
        }
    }
}
