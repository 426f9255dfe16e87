//! A communicator that dawdles.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use sylvie_comm::{CommError, Communicator, Incoming, Outgoing, Received, Tag, Traffic};

use crate::mix;

/// Delivers late by random amounts, and otherwise what the communicator inside it delivers.
///
/// - Before half of all calls it sleeps, for at most 255 microseconds, so that the messages of each rank
///   are sent and looked for late by different amounts.
/// - [`is_ready`](Communicator::is_ready) denies up to 7 times that an exchange has arrived which has.
///   Then it is true for good. Errors are passed on at once.
///
/// Any communicator may be inside, a `&mut` of one too.
#[derive(Debug)]
pub struct Jittered<C> {
    inner: C,
    seed: u64,
    n_calls: u64,
}

/// An exchange in flight that arrives late.
#[derive(Debug)]
#[must_use = "an exchange must be waited for"]
pub struct Late<P> {
    inner: P,
    /// How often its arrival will still be denied.
    n_denials: AtomicU32,
}

impl<C: Communicator> Jittered<C> {
    /// Wraps `inner`; the delays follow from `seed`, the rank and the number of the call.
    #[must_use]
    pub const fn new(inner: C, seed: u64) -> Self {
        Self { inner, seed, n_calls: 0 }
    }

    /// Sleeps or does not, and returns the bits that did not decide it.
    fn dawdle(&mut self) -> u64 {
        self.n_calls += 1;
        let draw = mix(&[self.seed, self.inner.rank() as u64, self.n_calls]);
        // Half of the calls come at once.
        if draw & 1 == 1 {
            thread::sleep(Duration::from_micros(draw >> 56));
        }
        draw >> 1
    }
}

impl<C: Communicator> Communicator for Jittered<C> {
    type Buffer = C::Buffer;
    type Pending = Late<C::Pending>;

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
        let n_denials = AtomicU32::new((self.dawdle() % 8) as u32);
        Ok(Late { inner: self.inner.start(tag, sends, recvs)?, n_denials })
    }

    fn is_ready(&mut self, pending: &Self::Pending) -> Result<bool, CommError> {
        self.dawdle();
        let is_ready = self.inner.is_ready(&pending.inner)?;
        let one_less = |n_denials: u32| n_denials.checked_sub(1);
        let denies =
            || pending.n_denials.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        Ok(is_ready && denies().is_err())
    }

    fn wait(&mut self, pending: Self::Pending) -> Result<Vec<Received<Self::Buffer>>, CommError> {
        self.dawdle();
        self.inner.wait(pending.inner)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.dawdle();
        self.inner.all_gather(bytes)
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        self.dawdle();
        self.inner.reduce(values)
    }

    fn barrier(&mut self) -> Result<(), CommError> {
        self.dawdle();
        self.inner.barrier()
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

#[cfg(test)]
mod tests {
    use sylvie_comm::{
        CommError, Communicator, Incoming, Outgoing, Pass, ThreadOptions, Threads, run_ranks,
    };

    use super::Jittered;
    use crate::exchange::tag;
    use crate::polling::poll_until_ready;

    /// How often the arrival of each of `n_exchanges` exchanges is denied.
    fn denials(seed: u64, n_exchanges: u32) -> Vec<u32> {
        let mut ranks = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
            let peer = 1 - comm.rank();
            // A `&mut` of a communicator can be wrapped as well, and so can a wrapper.
            let mut quiet = &mut *comm;
            let mut n_denials = Vec::new();
            for epoch in 0..n_exchanges {
                let send = Outgoing { peer, buffer: vec![3], payload_bytes: 1, metadata_bytes: 0 };
                let recvs = [Incoming { peer, bytes: 1 }];
                let mut late = Jittered::new(&mut quiet, seed + u64::from(epoch));
                let pending = late.start(tag(epoch, 0, Pass::Forward), vec![send], &recvs)?;
                poll_until_ready(&mut late.inner, &pending.inner)?;
                let mut n = 0;
                while !late.is_ready(&pending)? {
                    n += 1;
                }
                n_denials.push(n);
                assert!(late.is_ready(&pending)?, "once ready, always ready");
                assert_eq!(late.wait(pending)?.len(), 1);
            }
            Ok::<_, CommError>(n_denials)
        })
        .expect("no rank fails");
        ranks.swap_remove(0)
    }

    #[test]
    fn arrivals_are_denied_by_seed_and_for_a_while() {
        let found = denials(0, 40);
        assert!(found.iter().all(|&n| n < 8), "{found:?}");
        assert!(found.contains(&0) && found.iter().any(|&n| n > 2), "{found:?}");
        assert_eq!(denials(0, 40), found);
        assert_ne!(denials(1, 40), found);
    }
}
