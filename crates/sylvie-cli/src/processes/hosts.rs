//! Which ranks share a host, and how many cores that leaves each.

use std::fs;
use std::thread;

use anyhow::Result;
use sylvie::comm::{Communicator as _, Mpi};

use crate::flags::MAX_THREADS;

/// Threads of this rank where nobody says: the cores that it may use, shared with the other ranks of its
/// host that may use the same.
///
/// # Errors
/// A failing transport.
pub(super) fn threads_of_rank(comm: &mut Mpi) -> Result<u32> {
    let place = place();
    let all = comm.all_gather(place.as_bytes())?;
    let n_sharing = all.iter().filter(|other| ***other == *place.as_bytes()).count().max(1);
    let n_cores = thread::available_parallelism().map_or(1, |n| n.get());
    Ok(((n_cores / n_sharing) as u32).clamp(1, MAX_THREADS))
}

/// The host and the cores that this process is bound to; empty where the system does not say, which
/// makes the ranks share one host.
fn place() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
    format!("{host} {boot} {}", cores.unwrap_or_default())
}
