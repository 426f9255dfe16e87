//! Exchange of owned buffers between ranks, with traffic counts.
//!
//! A *rank* is one worker of a run. Ranks meet in three ways, all of them calls of [`Communicator`]:
//!
//! - an **exchange**: every rank hands over at most one buffer for each other rank and goes on
//!   computing; [`is_ready`](Communicator::is_ready) tells it, without blocking, whether all that it is
//!   owed has arrived, and [`wait`](Communicator::wait) gives it the buffers. Several exchanges may be
//!   in flight, and each carries a [`Tag`] (epoch, layer, pass, purpose);
//! - a **collective**: [`all_gather`](Communicator::all_gather) of a few bytes and
//!   [`reduce`](Communicator::reduce) of a vector of `f32`, with the same bits on every transport;
//! - an **abort**: whatever any rank is doing, its current or next call fails and names the cause.
//!
//! [`Threads`] is the transport within one process: ranks are threads, and a message moves as the
//! buffer itself, never as a copy. [`run_ranks`] runs a closure on every rank and brings all of them
//! down with the first that fails. A [`LinkModel`] makes them wait for their messages at least as
//! long as a network of that bandwidth and latency would: for experiments without a cluster.
//!
//! With feature `mpi` there are `Mpi` and `run_mpi` besides: ranks are processes, on one host or many,
//! started by an MPI library's launcher. A rank that fails ends the job there, on every host.
//!
//! With feature `nccl` there is `Nccl`: ranks with a GPU each, whose messages stay in the memory of devices.
//!
//! What this crate must never know: graphs, rows, bit widths. It counts payload and metadata bytes
//! because the caller says which is which.
//!
//! # Not promised
//! - No **order between pairs**: messages of one pair arrive in the order in which they were
//!   started, those of different pairs in any order.
//! - No **progress outside calls**: a transport may move bytes only while some rank is in a call.
//! - No **report of a message that nobody awaits**: it is dropped with the transport, or found as
//!   the wrong one when that pair's next message is due.
//! - No **diagnosis everywhere**: ranks that break the contract get a typed error where the transport
//!   can see it, and a timeout where it cannot.
//! - No **recovery**: the first error of a rank is final, and its later calls return it again.
//! - No **interruption of computation**: a rank learns of an abort in its next call and not before,
//!   so one that computes for ever keeps its run waiting.

mod communicator;
mod contract;
mod error;
mod link;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(feature = "nccl")]
mod nccl;
mod panic_text;
mod reduction;
mod tag;
mod threads;
mod traffic;

pub use communicator::{Communicator, Incoming, MessageLength, Outgoing, Received};
pub use error::{CommError, Operation};
pub use link::{LinkModel, LinkModelError};
#[cfg(feature = "mpi")]
pub use mpi::{Mpi, MpiError, MpiExchange, MpiFault, MpiOptions, mpi_library, run_mpi};
#[cfg(feature = "nccl")]
pub use nccl::{Nccl, NcclExchange, NcclOptions};
pub use sylvie_random::Pass;
pub use tag::{Purpose, Tag};
pub use threads::{PendingExchange, RankError, ThreadOptions, Threads, run_ranks};
pub use traffic::{CollectiveCount, Count, Traffic};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
