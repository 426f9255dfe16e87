//! Rounds: what a rank sends at once and what it is owed for it.
//!
//! An exchange is one round, a gather too, a reduction two. The thread that calls begins a round and
//! holds a [`Claim`]; the one that serves MPI fills it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::stamp::{STAMP_BYTES, Stamp};
use crate::{CommError, Operation, Tag};

/// Exchanges and collectives do not order each other, so that neither may lie in the other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Exchanges,
    Collectives,
}

impl Lane {
    pub(super) const ALL: [Self; 2] = [Self::Exchanges, Self::Collectives];
}

/// A stamped message to send.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) peer: usize,
    pub(super) message: Vec<u8>,
}

impl Parcel {
    pub(super) fn new(peer: usize, mut message: Vec<u8>, stamp: Stamp) -> Self {
        stamp.append(&mut message);
        Self { peer, message }
    }
}

/// What the next message of a peer must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Exchange { tag: Tag, n_bytes: usize },
    Gathered,
    Reduced { n_values: usize, n_bytes: usize },
}

impl Expected {
    /// Length of the message with its stamp, where it is known.
    pub(super) fn n_bytes_stamped(&self) -> usize {
        match *self {
            Self::Exchange { n_bytes, .. } | Self::Reduced { n_bytes, .. } => n_bytes + STAMP_BYTES,
            Self::Gathered => STAMP_BYTES,
        }
    }

    fn operation(&self) -> Operation {
        match *self {
            Self::Exchange { tag, .. } => Operation::Exchange(tag),
            Self::Gathered => Operation::AllGather,
            Self::Reduced { .. } => Operation::Reduce,
        }
    }

    /// Checks a message of `n_bytes` against the plan before anybody uses a byte of it.
    pub(super) fn accept(
        &self,
        peer: usize,
        stamp: Stamp,
        n_bytes: usize,
    ) -> Result<(), CommError> {
        let wrong_collective = |found| {
            let expected = self.operation();
            CommError::WrongCollective { peer, expected, found }
        };
        match (*self, stamp) {
            (_, Stamp::Goodbye) => Err(CommError::Departed { peer, operation: self.operation() }),
            (Self::Exchange { tag, n_bytes: expected }, Stamp::Exchange(found)) => {
                if found != tag {
                    return Err(CommError::WrongTag { peer, expected: tag, found });
                }
                if n_bytes != expected {
                    return Err(CommError::WrongLength { tag, peer, expected, found: n_bytes });
                }
                Ok(())
            }
            (Self::Gathered, Stamp::Gathered) => Ok(()),
            (Self::Gathered, Stamp::Reduced { .. }) => Err(wrong_collective(Operation::Reduce)),
            (Self::Reduced { .. }, Stamp::Gathered) => Err(wrong_collective(Operation::AllGather)),
            (
                Self::Reduced { n_values: expected, n_bytes: planned },
                Stamp::Reduced { n_values },
            ) => {
                let found = usize::try_from(n_values).unwrap_or(usize::MAX);
                if found != expected {
                    return Err(CommError::UnequalReduce { peer, expected, found });
                }
                if n_bytes != planned {
                    return Err(CommError::Unreadable { peer });
                }
                Ok(())
            }
            (Self::Exchange { .. }, _) | (_, Stamp::Exchange(_)) => {
                Err(CommError::Unreadable { peer })
            }
        }
    }
}

/// What becomes of buffers that have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Messages of like lengths will arrive: they are kept for those.
    Kept,
    Freed,
}

/// The half of a round that goes to the thread that serves MPI.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) lane: Lane,
    pub(super) parcels: Vec<Parcel>,
    pub(super) sent: Sent,
    pub(super) owed: Vec<(usize, Expected)>,
    pub(super) tray: Tray,
}

/// Where the messages of a round are collected, in the order in which they are owed.
#[derive(Debug)]
pub(super) struct Tray {
    messages: Vec<Option<Vec<u8>>>,
    has_arrived: Arc<[AtomicBool]>,
    deliver: Sender<Vec<Vec<u8>>>,
}

impl Tray {
    pub(super) fn fill(&mut self, slot: usize, message: Vec<u8>) {
        self.messages[slot] = Some(message);
        self.has_arrived[slot].store(true, Ordering::Relaxed);
    }

    /// Delivers the messages if all are there, else gives the tray back.
    pub(super) fn deliver(self) -> Option<Self> {
        if self.messages.iter().any(Option::is_none) {
            return Some(self);
        }
        // Nobody listens where a pending exchange was dropped.
        drop(self.deliver.send(self.messages.into_iter().flatten().collect()));
        None
    }
}

/// The half of a round that stays with the caller.
#[derive(Debug)]
pub(super) struct Claim {
    peers: Vec<usize>,
    has_arrived: Arc<[AtomicBool]>,
    delivered: Receiver<Vec<Vec<u8>>>,
}

/// Why a claim is not satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unmet {
    /// The time is over, for want of a message of this peer.
    Late { peer: usize },
    /// The rank has failed, and no round will be completed any more.
    Failed,
}

/// The two ends of a round in which `owed` must arrive.
pub(super) fn connect(owed: &[(usize, Expected)]) -> (Tray, Claim) {
    let (deliver, delivered) = bounded(1);
    let has_arrived: Arc<[AtomicBool]> = owed.iter().map(|_| AtomicBool::new(false)).collect();
    let messages = owed.iter().map(|_| None).collect();
    let peers = owed.iter().map(|&(peer, _)| peer).collect();
    let tray = Tray { messages, has_arrived: Arc::clone(&has_arrived), deliver };
    (tray, Claim { peers, has_arrived, delivered })
}

impl Claim {
    /// Whether all messages have been delivered.
    pub(super) fn is_met(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// The first peer whose message is missing.
    pub(super) fn first_missing(&self) -> Option<usize> {
        let arrived = self.has_arrived.iter().position(|arrived| !arrived.load(Ordering::Relaxed));
        arrived.map(|slot| self.peers[slot])
    }

    /// Blocks until the messages are delivered, or until `deadline` has passed since `started`.
    pub(super) fn take(&self, started: Instant, deadline: Duration) -> Result<Vec<Vec<u8>>, Unmet> {
        loop {
            let left = deadline.saturating_sub(started.elapsed());
            match self.delivered.recv_timeout(left) {
                Ok(messages) => return Ok(messages),
                Err(RecvTimeoutError::Disconnected) => return Err(Unmet::Failed),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(peer) = self.first_missing() {
                        return Err(Unmet::Late { peer });
                    }
                    // All has come; it will be handed over at once.
                    std::thread::yield_now();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Expected, Stamp, Unmet, connect};
    use crate::{CommError, Operation, Pass, Purpose, Tag};

    const TAG: Tag = Tag { epoch: 3, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };

    #[test]
    fn messages_are_held_to_the_plan() {
        let exchange = Expected::Exchange { tag: TAG, n_bytes: 8 };
        let reduced = Expected::Reduced { n_values: 5, n_bytes: 12 };
        assert_eq!(exchange.accept(1, Stamp::Exchange(TAG), 8), Ok(()));
        assert_eq!(reduced.accept(1, Stamp::Reduced { n_values: 5 }, 12), Ok(()));
        assert_eq!(Expected::Gathered.accept(1, Stamp::Gathered, 77), Ok(()));

        let found = Tag { epoch: 4, ..TAG };
        assert_eq!(
            exchange.accept(1, Stamp::Exchange(found), 9),
            Err(CommError::WrongTag { peer: 1, expected: TAG, found })
        );
        assert_eq!(
            exchange.accept(1, Stamp::Exchange(TAG), 9),
            Err(CommError::WrongLength { tag: TAG, peer: 1, expected: 8, found: 9 })
        );
        assert_eq!(
            reduced.accept(2, Stamp::Reduced { n_values: 6 }, 12),
            Err(CommError::UnequalReduce { peer: 2, expected: 5, found: 6 })
        );
        assert_eq!(
            reduced.accept(2, Stamp::Gathered, 12),
            Err(CommError::WrongCollective {
                peer: 2,
                expected: Operation::Reduce,
                found: Operation::AllGather
            })
        );
        assert_eq!(
            Expected::Gathered.accept(0, Stamp::Goodbye, 0),
            Err(CommError::Departed { peer: 0, operation: Operation::AllGather })
        );
        for (expected, stamp) in [
            (exchange, Stamp::Gathered),
            (Expected::Gathered, Stamp::Exchange(TAG)),
            (reduced, Stamp::Reduced { n_values: 5 }),
        ] {
            let unreadable = Err(CommError::Unreadable { peer: 3 });
            assert_eq!(expected.accept(3, stamp, 8), unreadable, "{expected:?} {stamp:?}");
        }
    }

    #[test]
    fn a_claim_names_the_first_peer_that_is_late() {
        let owed = [(4, Expected::Gathered), (2, Expected::Gathered)];
        let (mut tray, claim) = connect(&owed);
        let take = || claim.take(Instant::now(), Duration::ZERO);
        assert_eq!(take(), Err(Unmet::Late { peer: 4 }));
        tray.fill(0, vec![1]);
        assert_eq!(take(), Err(Unmet::Late { peer: 2 }));
        let mut tray = tray.deliver().expect("one is missing");
        tray.fill(1, vec![2]);
        assert!(!claim.is_met() && tray.deliver().is_none() && claim.is_met());
        assert_eq!(take(), Ok(vec![vec![1], vec![2]]));
        assert_eq!(take(), Err(Unmet::Failed), "the tray is gone");
    }

    #[test]
    fn nothing_owed_is_delivered_at_once() {
        let (tray, claim) = connect(&[]);
        assert!(tray.deliver().is_none());
        assert_eq!(claim.take(Instant::now(), Duration::MAX), Ok(Vec::new()));
    }
}
