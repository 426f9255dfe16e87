//! Test suites generic over Sylvie's traits, for whoever implements one.
//!
//! A transport implements [`Runner`] and calls the suites:
//!
//! - [`exchange`]: buffers, orders, several exchanges in flight, random [`Plan`]s, delays, traffic;
//! - [`polling`]: whether an exchange is ready, asked at any time and in any order;
//! - [`collectives`]: gathers in rank order, sums with exact bits;
//! - [`faults`]: aborts, panics, early returns, broken plans, timeouts - for transports whose process
//!   outlives a fault.
//!
//! A backend calls [`backend::follows_the_specification`].
//!
//! [`Jittered`] is also for the tests of whoever uses a communicator: it wraps any, and delays what it
//! delivers at random.
//!
//! Every suite checks inside the ranks and panics on the first difference.

pub mod backend;
pub mod collectives;
pub mod exchange;
pub mod faults;
mod jitter;
mod plan;
pub mod polling;

use sylvie_comm::{CommError, Communicator, RankError};

pub use jitter::{Jittered, Late};
pub use plan::{Plan, PlannedExchange, plans, plans_of};

/// Runs ranks of one transport.
pub trait Runner: Sync {
    /// What its messages are made of.
    type Buffer: Send;
    /// Its communicator.
    type Comm<'a>: Communicator<Buffer = Self::Buffer>;

    /// Runs `body` as `n_ranks` ranks, or as those of them that live in this process.
    ///
    /// # Errors
    /// The root cause, if a rank returned an error, panicked or aborted.
    fn run(
        &self,
        n_ranks: usize,
        body: impl Fn(&mut Self::Comm<'_>) -> Result<(), CommError> + Sync,
    ) -> Result<(), RankError<CommError>>;

    /// How many of `n_ranks` ranks live in this process: all, unless a rank is a process.
    fn n_ranks_here(&self, n_ranks: usize) -> usize {
        n_ranks
    }

    /// A buffer with these bytes.
    fn buffer(&self, bytes: Vec<u8>) -> Self::Buffer;

    /// The bytes of a buffer.
    fn bytes(&self, buffer: Self::Buffer) -> Vec<u8>;
}

/// Runs ranks that must all succeed.
fn run_well<R: Runner>(
    runner: &R,
    n_ranks: usize,
    body: impl Fn(&mut R::Comm<'_>) -> Result<(), CommError> + Sync,
) {
    if let Err(error) = runner.run(n_ranks, body) {
        panic!("{n_ranks} ranks do not succeed: {error:?}");
    }
}

/// Mixes words into one that depends on all their bits (the finaliser of SplitMix64).
fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0, |state: u64, &word| {
        let mut z = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}
