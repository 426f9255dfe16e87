//! What can go wrong between ranks.

use std::fmt;
use std::time::Duration;

use crate::Tag;

/// The call in which a rank was when something went wrong.
///
/// # Example
/// ```
/// use sylvie_comm::{CommError, Operation};
///
/// let error = CommError::Departed { peer: 3, operation: Operation::Reduce };
/// assert_eq!(error.to_string(), "rank 3 left before reduce was complete");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The exchange with this tag.
    Exchange(Tag),
    /// [`all_gather`](crate::Communicator::all_gather), barriers included.
    AllGather,
    /// [`reduce`](crate::Communicator::reduce).
    Reduce,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(tag) => write!(f, "the exchange of {tag}"),
            Self::AllGather => f.write_str("all_gather"),
            Self::Reduce => f.write_str("reduce"),
        }
    }
}

/// Why a call of a [`Communicator`](crate::Communicator) failed.
///
/// `peer` is always the other rank. The first error of a rank is final: its later calls return the
/// same error, or [`Aborted`](Self::Aborted) once the run has been aborted.
///
/// # Example
/// ```
/// use sylvie_comm::{
///     CommError, Communicator, Incoming, Outgoing, Pass, Purpose, RankError, Tag, ThreadOptions,
///     Threads, run_ranks,
/// };
///
/// // Both ranks expect four bytes, and rank 0 sends three.
/// let tag = Tag { epoch: 0, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };
/// let outcome = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
///     let (peer, n_bytes) = (1 - comm.rank(), 3 + comm.rank());
///     let (buffer, payload_bytes) = (vec![0; n_bytes], n_bytes as u64);
///     let send = Outgoing { peer, buffer, payload_bytes, metadata_bytes: 0 };
///     let pending = comm.start(tag, vec![send], &[Incoming { peer, bytes: 4 }])?;
///     comm.wait(pending).map(drop)
/// });
/// let Err(RankError::Failed { rank: 1, source }) = outcome else { panic!("rank 1 does not fail") };
/// assert_eq!(source, CommError::WrongLength { tag, peer: 0, expected: 4, found: 3 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// Some rank, possibly this one, ended the run.
    #[error("rank {rank} aborted the run: {cause}")]
    Aborted {
        /// The rank that aborted; the first one, if several did.
        rank: usize,
        /// What it said.
        cause: String,
    },
    /// A peer's message did not arrive within the deadline of a call, or of an exchange that was only
    /// polled.
    #[error("rank {rank} waited {waited:?} in vain for rank {peer} in {operation}")]
    Timeout {
        /// The rank that waited.
        rank: usize,
        /// What it waited for.
        operation: Operation,
        /// The first rank whose message was missing.
        peer: usize,
        /// Time since the start of the call, or of the polled exchange.
        waited: Duration,
    },
    /// A peer finished although this rank still had business with it.
    #[error("rank {peer} left before {operation} was complete")]
    Departed {
        /// The rank that is gone.
        peer: usize,
        /// What is incomplete.
        operation: Operation,
    },
    /// A peer's next message belongs to another exchange than the one that is due.
    #[error("rank {peer} sent {found}, but {expected} was due")]
    WrongTag {
        /// The sender.
        peer: usize,
        /// The tag that this rank's plan says.
        expected: Tag,
        /// The tag that the message carries.
        found: Tag,
    },
    /// A message has another length than this rank's plan says.
    #[error("message of {tag} from rank {peer} has {found} bytes instead of {expected}")]
    WrongLength {
        /// The exchange.
        tag: Tag,
        /// The sender.
        peer: usize,
        /// Bytes according to the plan.
        expected: usize,
        /// Bytes that arrived.
        found: usize,
    },
    /// A peer is in another collective than this rank.
    #[error("rank {peer} is in {found}, but this rank is in {expected}")]
    WrongCollective {
        /// The other rank.
        peer: usize,
        /// What this rank called.
        expected: Operation,
        /// What the peer called.
        found: Operation,
    },
    /// A peer reduces a vector of another length than this rank.
    #[error("rank {peer} reduces {found} values, but this rank reduces {expected}")]
    UnequalReduce {
        /// The other rank.
        peer: usize,
        /// Values of this rank.
        expected: usize,
        /// Values of the peer.
        found: usize,
    },
    /// The library or the device that moves messages failed.
    #[error("the transport failed: {reason}")]
    Transport {
        /// What it said.
        reason: String,
    },
    /// A peer's message is not one of this program, or of another version of it.
    #[error("rank {peer} sent what this program cannot read; it may run another version")]
    Unreadable {
        /// The sender.
        peer: usize,
    },
}
