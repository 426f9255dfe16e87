//! A communicator that dawdles.

use std::thread;
use std::time::Duration;

use sylvie_comm::{CommError, Communicator, Incoming, Outgoing, Received, Tag, Traffic};

use crate::mix;

/// Sleeps for a random time of at most 255 microseconds before each call, so that the messages of
/// each rank come late by different amounts.
#[derive(Debug)]
pub struct Jittered<C> {
    inner: C,
    seed: u64,
    n_calls: u64,
}

impl<C: Communicator> Jittered<C> {
    /// Wraps `inner`; the delays follow from `seed`, the rank and the number of the call.
    #[must_use]
    pub const fn new(inner: C, seed: u64) -> Self {
        Self { inner, seed, n_calls: 0 }
    }

    fn dawdle(&mut self) {
        self.n_calls += 1;
        let draw = mix(&[self.seed, self.inner.rank() as u64, self.n_calls]);
        // Half of the calls come at once.
        if draw & 1 == 1 {
            thread::sleep(Duration::from_micros(draw >> 56));
        }
    }
}

impl<C: Communicator> Communicator for Jittered<C> {
    type Buffer = C::Buffer;
    type Pending = C::Pending;

    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<Self::Buffer>>,
        recvs: &[Incoming],
    ) -> Result<Self::Pending, CommError> {
        self.dawdle();
        self.inner.start(tag, sends, recvs)
    }

    fn wait(&mut self, pending: Self::Pending) -> Result<Vec<Received<Self::Buffer>>, CommError> {
        self.dawdle();
        self.inner.wait(pending)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.dawdle();
        self.inner.all_gather(bytes)
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        self.dawdle();
        self.inner.reduce(values)
    }

    fn abort(&mut self, cause: &str) {
        self.inner.abort(cause);
    }

    fn traffic(&self) -> &Traffic {
        self.inner.traffic()
    }

    fn take_traffic(&mut self) -> Traffic {
        self.inner.take_traffic()
    }
}
