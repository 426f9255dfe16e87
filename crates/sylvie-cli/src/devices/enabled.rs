//! Ranks on CUDA devices.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use sylvie::comm::{Communicator as _, Threads};
use sylvie::cuda::{CudaBackend, DeviceInfo, Staged, devices};

use super::{Machine, RankBody};
use crate::args::Transport;
use crate::console::Console;
use crate::ranks::{self, RankOptions};

#[cfg(feature = "mpi")]
mod processes;

#[cfg(feature = "mpi")]
pub(crate) use processes::Opened;

/// The numbers of the devices, in the order in which ranks take them.
fn numbers(machine: &Machine) -> Result<Option<Vec<usize>>> {
    match machine {
        Machine::Cpu => Ok(None),
        Machine::Cuda(numbers) if !numbers.is_empty() => Ok(Some(numbers.clone())),
        Machine::Cuda(_) => {
            let all = devices().context("--device cuda")?;
            ensure!(
                !all.is_empty(),
                "--device cuda: the driver is there and lists no device; CUDA_VISIBLE_DEVICES may hide them"
            );
            Ok(Some(all.iter().map(|device| device.ordinal).collect()))
        }
    }
}

/// Runs ranks that are threads, on the host or on devices.
///
/// # Errors
/// As [`ranks::run`]; a driver, library or device that is not there.
pub(crate) fn run<T: Send>(
    options: RankOptions,
    (machine, transport): (&Machine, Transport),
    body: &impl RankBody<T>,
) -> Result<Vec<T>> {
    let numbers = numbers(machine)?;
    if transport == Transport::Nccl {
        return by_nccl(options, machine, numbers, body);
    }
    let Some(numbers) = numbers else {
        return ranks::run(options, |backend, comm| body.run(backend, comm));
    };
    // Ranks that share a device share its memory too.
    let mut opened = BTreeMap::new();
    for &number in numbers.iter().take(options.n_ranks) {
        if let std::collections::btree_map::Entry::Vacant(place) = opened.entry(number) {
            place.insert(CudaBackend::<Staged>::open(number).context("--device")?);
        }
    }
    ranks::run_threads(options, |comm: &mut Threads<Vec<u8>>| {
        body.run(&opened[&numbers[comm.rank() % numbers.len()]], comm)
    })
}

#[cfg(feature = "nccl")]
fn by_nccl<T: Send>(
    options: RankOptions,
    machine: &Machine,
    numbers: Option<Vec<usize>>,
    body: &impl RankBody<T>,
) -> Result<Vec<T>> {
    use sylvie::comm::{Nccl, NcclOptions};
    use sylvie::cuda::OnDevice;

    let numbers = numbers.context(WITHOUT_DEVICES)?;
    let mut used: Vec<usize> = numbers.iter().copied().take(options.n_ranks).collect();
    used.sort_unstable();
    used.dedup();
    let (n_devices, n_ranks) = (used.len(), options.n_ranks);
    ensure!(
        n_devices == n_ranks,
        "--transport nccl needs a device of its own for each of {n_ranks} parts, and --device {machine} \
         has {n_devices} for them; fewer --parts, or --transport threads, with which parts share one"
    );
    ensure!(
        options.link.is_none(),
        "--link models a network for --transport threads; NCCL has a real one"
    );
    ranks::run_threads(options, |comm: &mut Threads<Vec<u8>>| {
        let backend = CudaBackend::<OnDevice>::open(numbers[comm.rank()]).context("--device")?;
        let nccl = NcclOptions { deadline: options.deadline };
        let mut comm = Nccl::new(comm, backend.device().clone(), nccl)?;
        body.run(&backend, &mut comm)
    })
}

#[cfg(not(feature = "nccl"))]
fn by_nccl<T: Send>(
    _: RankOptions,
    _: &Machine,
    _: Option<Vec<usize>>,
    _: &impl RankBody<T>,
) -> Result<Vec<T>> {
    anyhow::bail!("--transport nccl: {WITHOUT_NCCL}")
}

#[cfg(not(feature = "nccl"))]
const WITHOUT_NCCL: &str = "this program was built without it; build it with `cargo build --release --features \
                            nccl`, which needs no CUDA (docs/devices.md)";
#[cfg(feature = "nccl")]
const WITHOUT_DEVICES: &str = "--transport nccl moves bytes between devices: add --device cuda";

/// A device as JSON.
#[derive(Serialize)]
struct DeviceLine {
    device: usize,
    name: String,
    capability: String,
    memory_bytes: u64,
    processors: i32,
}

/// Lists devices.
///
/// # Errors
/// A driver that is not there.
pub(crate) fn list(console: Console) -> Result<()> {
    let all = devices()?;
    for DeviceInfo {
        ordinal, name, capability: (major, minor), memory_bytes, n_processors, ..
    } in &all
    {
        console.json(&DeviceLine {
            device: *ordinal,
            name: name.clone(),
            capability: format!("{major}.{minor}"),
            memory_bytes: *memory_bytes,
            processors: *n_processors,
        })?;
        let memory_gib = *memory_bytes as f64 / f64::from(1 << 30);
        console.line(format!(
            "cuda:{ordinal}  {name}, {memory_gib:.1} GiB, {n_processors} processors, compute capability \
             {major}.{minor}"
        ))?;
    }
    if all.is_empty() {
        console.line("the driver is there and lists no device")?;
    }
    Ok(())
}
