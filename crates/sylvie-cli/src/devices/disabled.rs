//! What a program does that was built without CUDA.

use anyhow::{Result, bail};

#[cfg(feature = "mpi")]
use super::StagedBody;
use super::{Machine, RankBody};
use crate::args::Transport;
use crate::console::Console;
use crate::ranks::{self, RankOptions};

const REMEDY: &str = "this program was built without CUDA; build it with `cargo build --release --features \
                      nccl`, which needs no CUDA (docs/devices.md)";

/// Runs ranks that are threads, on the host.
///
/// # Errors
/// As [`ranks::run`]; another machine or transport.
pub(crate) fn run<T: Send>(
    options: RankOptions,
    (machine, transport): (&Machine, Transport),
    body: &impl RankBody<T>,
) -> Result<Vec<T>> {
    if transport == Transport::Nccl {
        bail!("--transport nccl: {REMEDY}");
    }
    match machine {
        Machine::Cpu => ranks::run(options, |backend, comm| body.run(backend, comm)),
        Machine::Cuda(_) => bail!("--device {machine}: {REMEDY}"),
    }
}

/// Runs one rank of a job of processes, on the host.
///
/// # Errors
/// Those of the body; another machine.
#[cfg(feature = "mpi")]
pub(crate) fn on_device<T>(
    machine: &Machine,
    _rank: usize,
    n_threads: u32,
    body: impl StagedBody<T>,
) -> Result<T> {
    match machine {
        Machine::Cpu => body.run(&ranks::backend(n_threads)?),
        Machine::Cuda(_) => bail!("--device {machine}: {REMEDY}"),
    }
}

/// Lists devices.
///
/// # Errors
/// Always.
pub(crate) fn list(_: Console) -> Result<()> {
    bail!("--devices: {REMEDY}")
}
