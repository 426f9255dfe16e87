//! Which ranks share a host, and how many cores that leaves each.

use std::fs;
use std::thread;

use anyhow::Result;
use sylvie::comm::{Communicator as _, Mpi};

use crate::flags::MAX_THREADS;

/// What a rank has of its host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    /// Threads where nobody says: the cores that the rank may use, shared with the other ranks of its host
    /// that may use the same.
    pub(super) n_threads: u32,
    /// How many ranks of lower numbers are on the host.
    pub(super) number: usize,
}

impl Seat {
    /// Finds out, together with the other ranks.
    ///
    /// # Errors
    /// A failing transport.
    pub(super) fn find(comm: &mut Mpi) -> Result<Self> {
        let (host, cores) = (host(), cores());
        let all = comm.all_gather(format!("{host}\n{cores}").as_bytes())?;
        let own = &all[comm.rank()];
        let host_of = |place: &[u8]| place.split(|&byte| byte == b'\n').next().map(<[u8]>::to_vec);
        let is_here = |place: &&Vec<u8>| host_of(place) == host_of(own);
        let number = all[..comm.rank()].iter().filter(is_here).count();
        let n_sharing = all.iter().filter(|other| *other == own).count().max(1);
        let n_cores = thread::available_parallelism().map_or(1, |n| n.get());
        Ok(Self { n_threads: ((n_cores / n_sharing) as u32).clamp(1, MAX_THREADS), number })
    }
}

/// What tells this host from others; nothing where the system does not say, which makes the ranks share
/// one.
pub(super) fn host() -> String {
    let line = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    format!("{} {}", line("/proc/sys/kernel/hostname"), line("/proc/sys/kernel/random/boot_id"))
}

/// The cores that this process is bound to.
fn cores() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
    cores.unwrap_or_default().to_owned()
}
