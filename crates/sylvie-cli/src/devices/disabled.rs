//! What a program does that was built without CUDA.

use anyhow::{Result, bail};

#[cfg(feature = "mpi")]
use super::ProcessBody;
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

/// The machine of a rank that is a process.
#[cfg(feature = "mpi")]
pub(crate) struct Opened(sylvie::tensor::CpuBackend);

#[cfg(feature = "mpi")]
impl Opened {
    /// Starts the backend.
    ///
    /// # Errors
    /// Threads that the system refuses; another machine or transport.
    pub(crate) fn new(
        (machine, transport): (&Machine, Transport),
        _number_on_host: usize,
        n_threads: u32,
    ) -> Result<Self> {
        if transport == Transport::Nccl {
            bail!("--transport nccl: {REMEDY}");
        }
        match machine {
            Machine::Cpu => ranks::backend(n_threads).map(Self),
            Machine::Cuda(_) => bail!("--device {machine}: {REMEDY}"),
        }
    }

    /// The number of the device that must be this rank's own: there is none.
    pub(crate) fn own_device(&self) -> Option<usize> {
        None
    }

    /// Runs the rank on it.
    ///
    /// # Errors
    /// Those of the body.
    pub(crate) fn run<T>(
        &self,
        comm: &mut sylvie::comm::Mpi,
        _deadline: std::time::Duration,
        body: impl ProcessBody<T>,
    ) -> Result<T> {
        body.run(&self.0, comm)
    }
}

/// Lists devices.
///
/// # Errors
/// Always.
pub(crate) fn list(_: Console) -> Result<()> {
    bail!("--devices: {REMEDY}")
}
