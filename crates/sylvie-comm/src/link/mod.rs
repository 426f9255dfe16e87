//! A modelled link between hosts: how long messages take where there is no cluster to send them over.
//!
//! [`LinkModel`] says how fast the link of each host is and what the model leaves out; `network` follows
//! the messages through it; `fair` shares the links among them.

mod fair;
mod network;
mod text;

use std::time::Duration;

pub(crate) use network::{Flow, Network};
pub use text::LinkModelError;

/// Bandwidth and latency of the modelled link of each host.
///
/// Ranks on [threads](crate::Threads) that are [given one](crate::ThreadOptions::link) deliver each
/// message no sooner than such a network would: the receiver really waits. It is a **model**, not a
/// measurement:
///
/// - Ranks are laid out in order, `ranks_per_host` to a host: with 4, ranks 0 to 3 share host 0. Ranks of
///   the same host hand each other messages at once.
/// - Every host has one link, full duplex: what it sends and what it receives do not slow each other
///   down. Between the links nothing is ever short.
/// - The messages of an ordered pair of ranks, of exchanges and of collectives alike, go through one
///   after another, as over one connection, so that none overtakes another.
/// - The pairs with a message in progress share the links max-min fairly, as fluids: none could have more
///   but at the cost of one that has no more than it.
/// - A message arrives when its last byte has gone through, plus the latency; one of no bytes takes the
///   latency alone. Its bytes are those of the buffer.
///
/// # What it leaves out
/// Real networks are slower: headers and acknowledgements, the slow start and the uneven shares of TCP,
/// losses when many send to one (incast), contention inside switches and the processor time of the
/// network stack are not in the model. Waking up late, by some tens of microseconds, is not either, but
/// happens here as well. An abort is not a message: it reaches every rank at once, and so does the
/// departure of a rank that owes one.
///
/// # Text
/// `1Gbps,50us,ranks-per-host=4`: the bandwidth in `bps`, `kbps`, `Mbps` or `Gbps` (also
/// written `b/s`, `Gb/s`, ..), which are bits and powers of 1000 in upper and lower case alike; then, in
/// any order, a latency in `s`, `ms`, `us` or `ns` (none unless given) and `ranks-per-host=N` (1 unless
/// given).
///
/// # Errors
/// Parsing fails with a [`LinkModelError`] that names the part not understood.
/// # Example
/// ```
/// use std::time::Duration;
/// use sylvie_comm::LinkModel;
///
/// let link: LinkModel = "10Gb/s, 20us".parse()?;
/// assert_eq!(link.bits_per_second, 10e9);
/// assert_eq!(link.latency, Duration::from_micros(20));
/// assert_eq!(link.to_string(), "10Gbps,20us");
/// # Ok::<(), sylvie_comm::LinkModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// What the link carries in each direction; finite and above 0.
    pub bits_per_second: f64,
    /// Time from the last byte's passing to the message's arrival.
    pub latency: Duration,
    /// How many ranks share a link; above 0.
    pub ranks_per_host: usize,
}

impl LinkModel {
    /// A rank's host.
    pub(crate) fn host_of(&self, rank: usize) -> usize {
        rank / self.ranks_per_host
    }

    /// Panics unless the fields are what they should be.
    pub(crate) fn assert_sound(&self) {
        let Self { bits_per_second, ranks_per_host, .. } = *self;
        assert!(
            bits_per_second.is_finite() && bits_per_second > 0.0,
            "a link carries {bits_per_second} bits a second"
        );
        assert!(ranks_per_host > 0, "a host has {ranks_per_host} ranks");
    }
}
