//! The modelled network between ranks that are threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::LinkModel;
use crate::link::{Flow, Network};

/// A message in a channel, and how far the modelled network has got with it.
///
/// The message itself is handed over at once; the receiver makes as if it were not there until its flow
/// has arrived.
#[derive(Debug)]
pub(super) struct InTransit<T> {
    pub(super) message: T,
    /// None without a modelled link, and between ranks of one host.
    pub(super) flow: Option<Flow>,
}

/// The network that all ranks of a run share, and its clock.
#[derive(Clone, Debug)]
pub(super) struct SharedNetwork {
    began: Instant,
    network: Arc<Mutex<Network>>,
}

impl SharedNetwork {
    pub(super) fn new(link: LinkModel) -> Self {
        Self { began: Instant::now(), network: Arc::new(Mutex::new(Network::new(link))) }
    }

    pub(super) fn send(&self, from: usize, to: usize, n_bytes: usize) -> Option<Flow> {
        let mut network = self.lock();
        network.send(self.began.elapsed(), from, to, n_bytes)
    }

    /// Whether the message has arrived; to be asked until it has.
    pub(super) fn has_arrived(&self, flow: &Flow) -> bool {
        let mut network = self.lock();
        network.has_arrived(self.began.elapsed(), flow)
    }

    /// Time until the message should arrive, or none if it has.
    pub(super) fn time_left(&self, flow: &Flow) -> Option<Duration> {
        let mut network = self.lock();
        let now = self.began.elapsed();
        if network.has_arrived(now, flow) {
            return None;
        }
        Some(network.arrival(flow).saturating_sub(now))
    }

    /// Times are taken under the lock, so that the network never sees one go back.
    fn lock(&self) -> MutexGuard<'_, Network> {
        // Should a rank have panicked under the lock, its run is over: times no longer matter.
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
