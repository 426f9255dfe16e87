//! The machine of a rank that is a process: the host, a device whose messages go by the host, or one whose
//! messages go by NCCL.

use std::time::Duration;

use anyhow::{Context as _, Result};
use sylvie::comm::Mpi;
use sylvie::cuda::{CudaBackend, Staged};
use sylvie::tensor::CpuBackend;

use super::numbers;
use crate::args::Transport;
use crate::devices::{Machine, ProcessBody};
use crate::ranks;

/// The machine of a rank that is a process.
pub(crate) enum Opened {
    Host(CpuBackend),
    /// Messages go to pinned memory of the host, and from there by MPI.
    Staged(CudaBackend<Staged>),
    /// Messages go from device to device.
    #[cfg(feature = "nccl")]
    Nccl(CudaBackend<sylvie::cuda::OnDevice>),
}

impl Opened {
    /// Opens the machine: the ranks of a host take its devices in turn, and share them where there are fewer.
    ///
    /// # Errors
    /// A driver, library or device that is not there; threads that the system refuses.
    pub(crate) fn new(
        (machine, transport): (&Machine, Transport),
        number_on_host: usize,
        n_threads: u32,
    ) -> Result<Self> {
        let number = numbers(machine)?.map(|all| all[number_on_host % all.len()]);
        match (number, transport) {
            (number, Transport::Nccl) => Self::for_nccl(number),
            (None, _) => ranks::backend(n_threads).map(Self::Host),
            (Some(number), _) => CudaBackend::open(number).map(Self::Staged).context("--device"),
        }
    }

    #[cfg(feature = "nccl")]
    fn for_nccl(number: Option<usize>) -> Result<Self> {
        let number = number.context(super::WITHOUT_DEVICES)?;
        CudaBackend::open(number).map(Self::Nccl).context("--device")
    }

    #[cfg(not(feature = "nccl"))]
    fn for_nccl(_: Option<usize>) -> Result<Self> {
        anyhow::bail!("--transport nccl: {}", super::WITHOUT_NCCL)
    }

    /// The number of the device that must be this rank's own.
    pub(crate) fn own_device(&self) -> Option<usize> {
        match self {
            Self::Host(_) | Self::Staged(_) => None,
            #[cfg(feature = "nccl")]
            Self::Nccl(backend) => Some(backend.device().ordinal()),
        }
    }

    /// Runs the rank on it.
    ///
    /// # Errors
    /// Those of the body; ranks that share a device, or cannot be joined, by NCCL.
    pub(crate) fn run<T>(
        &self,
        comm: &mut Mpi,
        deadline: Duration,
        body: impl ProcessBody<T>,
    ) -> Result<T> {
        match self {
            Self::Host(backend) => body.run(backend, comm),
            Self::Staged(backend) => body.run(backend, comm),
            #[cfg(feature = "nccl")]
            Self::Nccl(backend) => {
                use sylvie::comm::{Nccl, NcclOptions};

                let device = backend.device().clone();
                let mut comm = Nccl::new(comm, device, NcclOptions { deadline })?;
                body.run(backend, &mut comm)
            }
        }
    }
}
