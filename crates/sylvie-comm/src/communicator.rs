//! The trait that every transport implements, and the values that cross it.

use crate::{CommError, Tag, Traffic};

/// A message to hand over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<B> {
    /// The rank that gets it.
    pub peer: usize,
    /// The bytes themselves, given away.
    pub buffer: B,
    /// How many of them are values.
    pub payload_bytes: u64,
    /// How many of them say how to read the values; with the payload, the buffer's whole length.
    pub metadata_bytes: u64,
}

/// A message that the plan says must arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incoming {
    /// The rank that sends it.
    pub peer: usize,
    /// Its exact length.
    pub bytes: usize,
}

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<B> {
    /// The rank that sent it.
    pub peer: usize,
    /// The bytes, as long as the plan said.
    pub buffer: B,
}

/// The length of a buffer, so that a transport can hold a message to its plan.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sylvie_comm::{
///     CommError, Communicator, Incoming, MessageLength, Outgoing, Pass, Purpose, Tag, ThreadOptions,
///     Threads, run_ranks,
/// };
///
/// /// Bytes that the messages for several peers share.
/// struct Shared(Arc<[u8]>);
///
/// impl MessageLength for Shared {
///     fn n_bytes(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let tag = Tag { epoch: 0, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };
/// let heard = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Shared>| {
///     let rank = comm.rank();
///     let bytes: Arc<[u8]> = Arc::from(vec![rank as u8; 8]);
///     let peers: Vec<usize> = (0..3).filter(|&peer| peer != rank).collect();
///     let send = |&peer: &usize| {
///         let buffer = Shared(Arc::clone(&bytes));
///         Outgoing { peer, buffer, payload_bytes: 8, metadata_bytes: 0 }
///     };
///     let recvs: Vec<Incoming> = peers.iter().map(|&peer| Incoming { peer, bytes: 8 }).collect();
///     let pending = comm.start(tag, peers.iter().map(send).collect(), &recvs)?;
///     let received = comm.wait(pending)?;
///     Ok::<_, CommError>(received.iter().map(|message| message.buffer.0[0]).collect::<Vec<u8>>())
/// })?;
/// assert_eq!(heard, [[1, 2], [0, 2], [0, 1]]);
/// # Ok::<(), sylvie_comm::RankError<CommError>>(())
/// ```
pub trait MessageLength {
    /// Bytes that travel.
    fn n_bytes(&self) -> usize;
}

impl MessageLength for Vec<u8> {
    fn n_bytes(&self) -> usize {
        self.len()
    }
}

/// One rank's connection to all the others.
///
/// # What all ranks must do alike
/// - Every rank starts the same exchanges in the same order, also those in which it has nothing to
///   send or to receive, and calls the same collectives in the same order. Exchanges and collectives
///   do not order each other: one rank may gather before it waits, another after.
/// - What one rank sends, its peer awaits in the same exchange, and nothing else. A pair with nothing
///   to say sends nothing and is left out on both sides.
/// - A rank waits for every exchange that it has started, in any order, before it leaves.
///
/// # What is not promised
/// See the [crate documentation](crate#not-promised). In particular a transport need not be `Send`,
/// and bytes may move only inside calls.
///
/// # Errors
/// Every call may return [`CommError::Aborted`], [`CommError::Timeout`] and [`CommError::Departed`].
/// Where a transport cannot outlive the fault, as under MPI, the process ends instead.
///
/// # Example
/// ```
/// use sylvie_comm::{
///     CommError, Communicator, Incoming, Outgoing, Pass, Purpose, Received, Tag, ThreadOptions,
///     Threads, run_ranks,
/// };
///
/// /// Hands a message to the next rank of a ring of two or more, over any transport.
/// fn pass_on<C>(comm: &mut C, tag: Tag, message: &[u8]) -> Result<Vec<u8>, CommError>
/// where
///     C: Communicator<Buffer = Vec<u8>>,
/// {
///     let (rank, size, n_bytes) = (comm.rank(), comm.size(), message.len());
///     let send = Outgoing {
///         peer: (rank + 1) % size,
///         buffer: message.to_vec(),
///         payload_bytes: n_bytes as u64,
///         metadata_bytes: 0,
///     };
///     let from = Incoming { peer: (rank + size - 1) % size, bytes: n_bytes };
///     let pending = comm.start(tag, vec![send], &[from])?;
///     while !comm.is_ready(&pending)? {
///         std::thread::yield_now(); // or a piece of the computation
///     }
///     let Received { peer, buffer } = comm.wait(pending)?.remove(0);
///     assert_eq!(peer, from.peer);
///     Ok(buffer)
/// }
///
/// let tag = Tag { epoch: 0, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };
/// let outcomes = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
///     let heard = pass_on(comm, tag, &[comm.rank() as u8; 16])?;
///     let traffic = comm.take_traffic().of(tag);
///     Ok::<_, CommError>((comm.all_gather(&heard[..1])?, traffic.payload_bytes))
/// })?;
/// assert_eq!(outcomes[0].0, [[2], [0], [1]]); // what ranks 0, 1 and 2 heard, known to all of them
/// assert_eq!(outcomes[0], outcomes[2]);
/// assert_eq!(outcomes[0].1, 16);
/// # Ok::<(), sylvie_comm::RankError<CommError>>(())
/// ```
pub trait Communicator {
    /// What a message is made of: bytes in the memory of the host or of a device.
    type Buffer: Send;
    /// An exchange in flight. Dropping it does not take back its messages: what then arrives for it
    /// is kept until the communicator goes.
    type Pending;

    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// Starts an exchange: hands over `sends` and notes that `recvs` must arrive.
    ///
    /// Returns at once, without waiting for any peer, and counts what is sent as traffic.
    ///
    /// # Cost
    /// The buffers move; nothing is copied between ranks that share a memory.
    /// # Errors
    /// As for every call. What was handed over is lost then.
    /// # Panics
    /// If a peer is this rank, is not below [`size`](Self::size) or occurs twice in a list, or, where
    /// the transport can tell, if a buffer is not as long as its payload and metadata together.
    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<Self::Buffer>>,
        recvs: &[Incoming],
    ) -> Result<Self::Pending, CommError>;

    /// Whether everything of the exchange has arrived, so that [`wait`](Self::wait) would return at once.
    ///
    /// Never blocks. Lets the transport make progress, for exchanges and collectives alike where that
    /// depends on calls, so that whoever computes may ask between two pieces of work. Once true, it
    /// stays true.
    ///
    /// # Errors
    /// As for every call; [`CommError::Timeout`], with the first missing peer in the order of `recvs`,
    /// once the exchange has been in flight for longer than the deadline. As for [`wait`](Self::wait)
    /// where a message that is not the one due has been found.
    /// # Panics
    /// If `pending` comes from another rank.
    fn is_ready(&mut self, pending: &Self::Pending) -> Result<bool, CommError>;

    /// Blocks until everything of the exchange has arrived, and returns it in the order of `recvs`.
    ///
    /// The buffers are the caller's, to be used for later sends: forward and backward of a pair mirror
    /// each other's lengths, so that in steady state nobody allocates a buffer.
    ///
    /// # Errors
    /// [`CommError::WrongTag`] if a peer's next message is not the one due, [`CommError::WrongLength`]
    /// if it is not as long as planned; either may concern another exchange in flight with that peer.
    /// # Panics
    /// If `pending` comes from another rank.
    fn wait(&mut self, pending: Self::Pending) -> Result<Vec<Received<Self::Buffer>>, CommError>;

    /// Gives `bytes` of every rank to every rank: one entry a rank, in rank order, of any lengths.
    ///
    /// # Errors
    /// [`CommError::WrongCollective`] if a peer is in another collective.
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Replaces `values` by their sum over the ranks.
    ///
    /// Element by element, `((x0 + x1) + x2) + ..` in rank order and in `f32`: the same bits on every
    /// rank and every transport. On an error the contents of `values` are unspecified.
    ///
    /// # Cost
    /// Each rank sums one slice and gives it to the others: it sends about `2 * (size - 1) / size`
    /// times the vector.
    /// # Errors
    /// [`CommError::UnequalReduce`] if a peer's vector has another length;
    /// [`CommError::WrongCollective`] if a peer is in another collective.
    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError>;

    /// Returns when every rank has called it; counted as an `all_gather` of nothing.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    fn barrier(&mut self) -> Result<(), CommError> {
        self.all_gather(&[]).map(drop)
    }

    /// Ends the run: the current or next call of every rank, this one too, fails with
    /// [`CommError::Aborted`] and `cause`. The first abort of a run wins.
    ///
    /// Waits for nobody. Under MPI it does not return.
    fn abort(&mut self, cause: &str);

    /// What this rank has sent since the counts were last taken.
    fn traffic(&self) -> &Traffic;

    /// Returns the counts and begins again at zero.
    fn take_traffic(&mut self) -> Traffic;
}

impl<C: Communicator> Communicator for &mut C {
    type Buffer = C::Buffer;
    type Pending = C::Pending;

    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<Self::Buffer>>,
        recvs: &[Incoming],
    ) -> Result<Self::Pending, CommError> {
        (**self).start(tag, sends, recvs)
    }

    fn is_ready(&mut self, pending: &Self::Pending) -> Result<bool, CommError> {
        (**self).is_ready(pending)
    }

    fn wait(&mut self, pending: Self::Pending) -> Result<Vec<Received<Self::Buffer>>, CommError> {
        (**self).wait(pending)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        (**self).all_gather(bytes)
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        (**self).reduce(values)
    }

    fn barrier(&mut self) -> Result<(), CommError> {
        (**self).barrier()
    }

    fn abort(&mut self, cause: &str) {
        (**self).abort(cause);
    }

    fn traffic(&self) -> &Traffic {
        (**self).traffic()
    }

    fn take_traffic(&mut self) -> Traffic {
        (**self).take_traffic()
    }
}
