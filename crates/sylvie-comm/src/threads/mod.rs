//! Ranks as threads of one process.
//!
//! Every ordered pair of ranks has two channels, one for messages of exchanges and one for
//! collectives, so that neither has to look past the other's. All are unbounded: a send never blocks,
//! hence no order of calls that the trait allows can deadlock. A rank blocks in one place only
//! ([`watch`]), on the peer's channel, the abort channel and the deadline together.
//!
//! With a [`LinkModel`] a message still moves through its channel when it is sent, but the receiver
//! leaves it alone until the model says that it has arrived, and sleeps until then.

mod abort;
mod collectives;
mod exchanges;
mod modelled;
mod run;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::{
    CommError, Communicator, Incoming, LinkModel, MessageLength, Operation, Outgoing, Received,
    Tag, Traffic, contract, reduction,
};
use abort::Abort;
use collectives::Collectives;
use exchanges::Exchanges;
use modelled::SharedNetwork;
use watch::{Surroundings, Watch};

pub use exchanges::PendingExchange;
pub use run::{RankError, run_ranks};

/// Settings of ranks that are threads.
///
/// # Example
/// ```
/// use std::time::{Duration, Instant};
/// use sylvie_comm::{CommError, Communicator, ThreadOptions, Threads, run_ranks};
///
/// // No message takes less than 2 ms, and none is waited for longer than 10 s.
/// let options = ThreadOptions {
///     deadline: Duration::from_secs(10),
///     link: Some("1Gbps,2ms".parse()?),
///     ..ThreadOptions::default()
/// };
/// let start = Instant::now();
/// run_ranks(2, &options, |comm: &mut Threads<Vec<u8>>| comm.barrier())?;
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadOptions {
    /// How long one call may wait for its peers, and how long an exchange may be in flight when it is
    /// [polled](Communicator::is_ready). It must exceed the longest computation between two
    /// calls, since the fastest rank waits that long for the slowest. An exchange that is polled counts
    /// from its start: there it must exceed the longest time by which a rank may be ahead of another.
    pub deadline: Duration,
    /// Stack of each rank's thread.
    pub stack_bytes: usize,
    /// A network between the ranks' hosts, which delays each message as its model says.
    pub link: Option<LinkModel>,
}

impl Default for ThreadOptions {
    /// A deadline of 60 s, stacks of 16 MiB, and no link: messages arrive when they are sent.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(60), stack_bytes: 16 << 20, link: None }
    }
}

/// One end of all the channels of one kind, indexed by rank. A rank's channel to itself stays empty.
#[derive(Debug)]
struct Links<T> {
    to: Vec<Sender<T>>,
    from: Vec<Receiver<T>>,
}

/// The communicator of one rank among threads; [`run_ranks`] makes it.
///
/// It is `Send`: a rank may lend it to a thread of its own. A message moves as the buffer itself, so
/// the receiver gets the sender's allocation. A peer that has left after sending all it owed is no
/// error; one that owes something is [`CommError::Departed`].
#[derive(Debug)]
pub struct Threads<B> {
    size: usize,
    around: Surroundings,
    exchanges: Exchanges<B>,
    collectives: Collectives,
    traffic: Traffic,
    failure: Option<CommError>,
}

/// Connects `n_ranks` ranks, returned in rank order.
fn connect<B>(n_ranks: usize, options: &ThreadOptions, abort: &Arc<Abort>) -> Vec<Threads<B>> {
    let deadline = options.deadline;
    let network = options.link.map(SharedNetwork::new);
    let exchanges = mesh(n_ranks);
    let collectives = mesh(n_ranks);
    let of_rank = |(rank, (exchanges, collectives))| Threads {
        size: n_ranks,
        around: Surroundings { rank, deadline, alarm: abort.alarm(), network: network.clone() },
        exchanges: Exchanges::new(rank, exchanges),
        collectives: Collectives::new(rank, collectives),
        traffic: Traffic::default(),
        failure: None,
    };
    exchanges.into_iter().zip(collectives).enumerate().map(of_rank).collect()
}

/// A channel for every ordered pair, sorted into the links of each rank.
fn mesh<T>(n_ranks: usize) -> Vec<Links<T>> {
    let mut links: Vec<_> =
        (0..n_ranks).map(|_| Links { to: Vec::new(), from: Vec::new() }).collect();
    for sender in 0..n_ranks {
        for receiver in 0..n_ranks {
            let (to, from) = unbounded();
            links[sender].to.push(to);
            links[receiver].from.push(from);
        }
    }
    links
}

impl<B> Threads<B> {
    /// Runs one operation unless the run is over, and remembers its error.
    fn guarded<T>(
        &mut self,
        operation: Operation,
        run: impl FnOnce(&mut Self, &Watch) -> Result<T, CommError>,
    ) -> Result<T, CommError> {
        self.guarded_since(Instant::now(), operation, run)
    }

    /// As [`guarded`](Self::guarded), with a deadline that counts from `started`.
    fn guarded_since<T>(
        &mut self,
        started: Instant,
        operation: Operation,
        run: impl FnOnce(&mut Self, &Watch) -> Result<T, CommError>,
    ) -> Result<T, CommError> {
        self.around.alarm.check()?;
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let watch = Watch::new(self.around.clone(), operation, started);
        let outcome = run(self, &watch);
        if let Err(failure) = &outcome {
            self.failure = Some(failure.clone());
        }
        outcome
    }

    fn assert_own(&self, pending: &PendingExchange) {
        let (rank, found) = (self.around.rank, pending.rank);
        assert!(rank == found, "rank {rank} waits for an exchange of rank {found}");
    }
}

impl<B: Send + MessageLength> Communicator for Threads<B> {
    type Buffer = B;
    type Pending = PendingExchange;

    fn rank(&self) -> usize {
        self.around.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<B>>,
        recvs: &[Incoming],
    ) -> Result<PendingExchange, CommError> {
        contract::assert_start((self.around.rank, self.size), &sends, recvs);
        self.guarded(Operation::Exchange(tag), |this, watch| {
            for send in sends {
                let (payload_bytes, metadata_bytes) = (send.payload_bytes, send.metadata_bytes);
                this.exchanges.send(tag, send.peer, send.buffer, watch)?;
                this.traffic.record(tag, payload_bytes, metadata_bytes);
            }
            Ok(this.exchanges.expect(tag, recvs, watch))
        })
    }

    fn is_ready(&mut self, pending: &PendingExchange) -> Result<bool, CommError> {
        self.assert_own(pending);
        self.guarded_since(pending.started, Operation::Exchange(pending.tag), |this, watch| {
            this.exchanges.is_complete(pending, watch)
        })
    }

    fn wait(&mut self, pending: PendingExchange) -> Result<Vec<Received<B>>, CommError> {
        self.assert_own(&pending);
        self.guarded(Operation::Exchange(pending.tag), |this, watch| {
            this.exchanges.complete(&pending, watch)
        })
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.guarded(Operation::AllGather, |this, watch| {
            let gathered = this.collectives.all_gather(bytes, watch)?;
            this.traffic.gathered.record(bytes.len() * (this.size - 1));
            Ok(gathered)
        })
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        self.guarded(Operation::Reduce, |this, watch| {
            this.collectives.reduce(values, watch)?;
            let n_bytes = reduction::bytes_sent(values.len(), this.size, this.around.rank);
            this.traffic.reduced.record(n_bytes);
            Ok(())
        })
    }

    fn abort(&mut self, cause: &str) {
        self.around.alarm.raise(self.around.rank, cause);
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}
