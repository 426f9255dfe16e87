//! Messages of exchanges: sent at once, matched on arrival against what is due.

use std::collections::VecDeque;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use super::Links;
use super::modelled::InTransit;
use super::watch::Watch;
use crate::link::Flow;
use crate::{CommError, Incoming, MessageLength, Received, Tag};

/// An exchange in flight between threads.
///
/// # Example
/// Two exchanges in flight at once, waited for in the other order.
///
/// ```
/// use sylvie_comm::{
///     CommError, Communicator, Incoming, Outgoing, Pass, PendingExchange, Purpose, Tag,
///     ThreadOptions, Threads, run_ranks,
/// };
///
/// let tag = |layer| Tag { epoch: 0, layer, pass: Pass::Forward, purpose: Purpose::Training };
/// let layers = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
///     let peer = 1 - comm.rank();
///     let mut in_flight: Vec<PendingExchange> = Vec::new();
///     for layer in [1, 2] {
///         let buffer = vec![layer as u8];
///         let send = Outgoing { peer, buffer, payload_bytes: 1, metadata_bytes: 0 };
///         in_flight.push(comm.start(tag(layer), vec![send], &[Incoming { peer, bytes: 1 }])?);
///     }
///     let mut layers = Vec::new();
///     while let Some(pending) = in_flight.pop() {
///         layers.push(comm.wait(pending)?[0].buffer[0]);
///     }
///     Ok::<_, CommError>(layers)
/// })?;
/// assert_eq!(layers, [[2, 1], [2, 1]]);
/// # Ok::<(), sylvie_comm::RankError<CommError>>(())
/// ```
#[derive(Debug)]
#[must_use = "an exchange must be waited for"]
pub struct PendingExchange {
    pub(super) rank: usize,
    pub(super) tag: Tag,
    pub(super) started: Instant,
    number: u64,
    recvs: Vec<Incoming>,
}

#[derive(Debug)]
pub(super) struct Message<B> {
    tag: Tag,
    buffer: B,
}

/// A message that this rank's plan says comes next from a peer.
#[derive(Debug)]
struct Due {
    exchange: u64,
    tag: Tag,
    n_bytes: usize,
}

/// A message that is as planned, and may still be in transit.
#[derive(Debug)]
struct Early<B> {
    exchange: u64,
    buffer: B,
    flow: Option<Flow>,
}

/// Everything that comes from one peer.
#[derive(Debug)]
struct Mailbox<B> {
    from: Receiver<InTransit<Message<B>>>,
    /// In the order in which exchanges were started, which is the order of arrival.
    due: VecDeque<Due>,
    /// Taken from the channel while the rank waited for a later exchange, or polled.
    early: Vec<Early<B>>,
}

#[derive(Debug)]
pub(super) struct Exchanges<B> {
    rank: usize,
    n_started: u64,
    to: Vec<Sender<InTransit<Message<B>>>>,
    mailboxes: Vec<Mailbox<B>>,
}

impl<B> Exchanges<B> {
    pub(super) fn new(rank: usize, links: Links<InTransit<Message<B>>>) -> Self {
        let mailbox = |from| Mailbox { from, due: VecDeque::new(), early: Vec::new() };
        let mailboxes = links.from.into_iter().map(mailbox).collect();
        Self { rank, n_started: 0, to: links.to, mailboxes }
    }

    pub(super) fn send(
        &self,
        tag: Tag,
        peer: usize,
        buffer: B,
        watch: &Watch,
    ) -> Result<(), CommError>
    where
        B: MessageLength,
    {
        let n_bytes = buffer.n_bytes();
        watch.send(&self.to[peer], peer, Message { tag, buffer }, n_bytes)
    }

    /// Notes what must arrive for a new exchange.
    pub(super) fn expect(
        &mut self,
        tag: Tag,
        recvs: &[Incoming],
        watch: &Watch,
    ) -> PendingExchange {
        let number = self.n_started;
        self.n_started += 1;
        for recv in recvs {
            let due = Due { exchange: number, tag, n_bytes: recv.bytes };
            self.mailboxes[recv.peer].due.push_back(due);
        }
        let (rank, started) = (self.rank, watch.started());
        PendingExchange { rank, tag, started, number, recvs: recvs.to_vec() }
    }
}

impl<B: MessageLength> Exchanges<B> {
    /// Whether all of `pending` is there. Looks into the mailbox of every peer, so that a fault of one
    /// is found even while another is late.
    pub(super) fn is_complete(
        &mut self,
        pending: &PendingExchange,
        watch: &Watch,
    ) -> Result<bool, CommError> {
        let mut missing = None;
        for &Incoming { peer, .. } in &pending.recvs {
            if !self.mailboxes[peer].has(peer, pending.number, watch)? {
                missing = missing.or(Some(peer));
            }
        }
        missing.map_or(Ok(()), |peer| watch.check_deadline(peer))?;
        Ok(missing.is_none())
    }

    /// Blocks until all of `pending` is there.
    pub(super) fn complete(
        &mut self,
        pending: &PendingExchange,
        watch: &Watch,
    ) -> Result<Vec<Received<B>>, CommError> {
        let mut take = |&Incoming { peer, .. }: &Incoming| {
            let buffer = self.mailboxes[peer].take(peer, pending.number, watch)?;
            Ok(Received { peer, buffer })
        };
        pending.recvs.iter().map(&mut take).collect()
    }
}

impl<B: MessageLength> Mailbox<B> {
    /// The message of `exchange`; those of older exchanges that lie before it are put aside.
    fn take(&mut self, peer: usize, exchange: u64, watch: &Watch) -> Result<B, CommError> {
        let slot = loop {
            if let Some(slot) = self.slot(exchange) {
                break slot;
            }
            let message = watch.receive_sent(&self.from, peer)?;
            self.put_aside(peer, message)?;
        };
        let Early { buffer, flow, .. } = self.early.swap_remove(slot);
        watch.await_arrival(flow, peer)?;
        Ok(buffer)
    }

    /// Whether the message of `exchange` is here; it is put aside with those that lie before it.
    fn has(&mut self, peer: usize, exchange: u64, watch: &Watch) -> Result<bool, CommError> {
        let slot = loop {
            if let Some(slot) = self.slot(exchange) {
                break slot;
            }
            let Some(message) = watch.poll_sent(&self.from, peer)? else { return Ok(false) };
            self.put_aside(peer, message)?;
        };
        Ok(watch.has_arrived(&mut self.early[slot].flow))
    }

    /// Where the message of `exchange` lies, if it has been put aside.
    fn slot(&self, exchange: u64) -> Option<usize> {
        self.early.iter().position(|early| early.exchange == exchange)
    }

    /// Checks the next message and puts it where its exchange will find it.
    fn put_aside(&mut self, peer: usize, next: InTransit<Message<B>>) -> Result<(), CommError> {
        let due = self.due.pop_front().expect("the awaited message is still due");
        let buffer = due.accept(peer, next.message)?;
        self.early.push(Early { exchange: due.exchange, buffer, flow: next.flow });
        Ok(())
    }
}

impl Due {
    /// Checks a message against the plan before anybody uses a byte of it.
    fn accept<B: MessageLength>(&self, peer: usize, message: Message<B>) -> Result<B, CommError> {
        let Message { tag: found, buffer } = message;
        if found != self.tag {
            return Err(CommError::WrongTag { peer, expected: self.tag, found });
        }
        let (expected, found) = (self.n_bytes, buffer.n_bytes());
        if found != expected {
            return Err(CommError::WrongLength { tag: self.tag, peer, expected, found });
        }
        Ok(buffer)
    }
}
