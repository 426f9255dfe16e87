//! Ranks as processes, on one host or many, under MPI.
//!
//! One thread of each process calls MPI and nothing else ([`engine`]); the rank's own calls leave it
//! rounds of messages to send and to await ([`round`]), so that bytes move while the rank computes and
//! a deadline holds even where MPI blocks. Messages carry what they are at their end ([`stamp`]), travel
//! in pieces ([`outbox`]) and are matched before they are received ([`mailbox`]): a message of another
//! tag or length than planned is a typed error here, where MPI would end the job by itself. `reduce` is made of such messages too,
//! so that it adds in rank order. What goes wrong ends the job ([`ending`]).

mod ending;
mod engine;
mod in_flight;
mod mailbox;
mod outbox;
mod pace;
mod round;
mod run;
mod spare;
mod stamp;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use crate::{
    CommError, Communicator, Incoming, Operation, Outgoing, Purpose, Received, Tag, Traffic,
    contract, reduction,
};
use ending::{Ending, FAILED};
use engine::{Command, Failure};
use round::{Claim, Expected, Lane, Parcel, Round, Sent, Unmet};
use stamp::Stamp;

pub use ending::MpiFault;
pub use run::{MpiError, mpi_library, run_mpi};

/// Settings of ranks that are processes; the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiOptions {
    /// How long one call may wait for its peers, how long an exchange may be in flight when it is
    /// [polled](Communicator::is_ready), and how long MPI may take to start and to end. It must exceed
    /// the longest computation between two calls, since the fastest rank waits that long for the
    /// slowest.
    pub deadline: Duration,
    /// Longest message that MPI is given; longer ones travel as several. MPI counts in 31 bits, and
    /// messages of more than about 64 KB go by a protocol that shares a TCP link badly between its two
    /// directions: with 32 KiB a symmetric exchange gets nearly all of both, with 1 GiB half.
    pub piece_bytes: usize,
}

impl Default for MpiOptions {
    /// A deadline of 60 s and pieces of 32 KiB.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(60), piece_bytes: 32 << 10 }
    }
}

/// The communicator of a rank that is a process; [`run_mpi`] makes it.
///
/// It is `Send`: the thread that calls MPI is another one, which it only tells what to do. Bytes move
/// while the rank computes; a buffer that has been sent comes back as one of those that arrive, with
/// 16 bytes of room behind its contents, which the next send from it needs.
///
/// The first error is final, and the job cannot go on: return it from the body of [`run_mpi`], which
/// then ends the job on every rank.
pub struct Mpi {
    rank: usize,
    size: usize,
    deadline: Duration,
    commands: Sender<Command>,
    /// Set by the thread that calls MPI.
    fault: Failure,
    ending: Arc<Ending>,
    traffic: Traffic,
    failure: Option<CommError>,
    /// Slices that arrived in earlier reductions: as many as the next one sends.
    spare: Vec<Vec<u8>>,
    term: Vec<f32>,
    own_term: Vec<f32>,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// An exchange in flight between processes.
#[derive(Debug)]
#[must_use = "an exchange must be waited for"]
pub struct MpiExchange {
    tag: Tag,
    started: Instant,
    recvs: Vec<Incoming>,
    claim: Claim,
}

impl Mpi {
    fn new(
        (rank, size): (usize, usize),
        deadline: Duration,
        commands: Sender<Command>,
        fault: Failure,
        ending: Arc<Ending>,
    ) -> Self {
        Self {
            rank,
            size,
            deadline,
            commands,
            fault,
            ending,
            traffic: Traffic::default(),
            failure: None,
            spare: Vec::new(),
            term: Vec::new(),
            own_term: Vec::new(),
        }
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn failure(&self) -> Option<&CommError> {
        self.failure.as_ref().or_else(|| self.fault.get())
    }

    fn tell(&self, command: Command) {
        // Until this rank has left or the process ends, the other thread listens.
        if self.commands.send(command).is_err() {
            self.ending.end(FAILED, "the thread of MPI is gone".into());
        }
    }

    /// Runs one operation unless the rank has failed, and remembers its error.
    fn guarded<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, CommError>,
    ) -> Result<T, CommError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = run(self);
        if let Err(failure) = &outcome {
            self.failure = Some(failure.clone());
        }
        outcome
    }

    fn begin(
        &self,
        lane: Lane,
        parcels: Vec<Parcel>,
        sent: Sent,
        owed: Vec<(usize, Expected)>,
    ) -> Claim {
        let (tray, claim) = round::connect(&owed);
        self.tell(Command::Begin(Round { lane, parcels, sent, owed, tray }));
        claim
    }

    fn take(
        &self,
        claim: &Claim,
        operation: Operation,
        started: Instant,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        claim.take(started, self.deadline).map_err(|unmet| match unmet {
            Unmet::Late { peer } => self.timeout(operation, peer, started),
            Unmet::Failed => self.fault(operation, started),
        })
    }

    fn timeout(&self, operation: Operation, peer: usize, started: Instant) -> CommError {
        CommError::Timeout { rank: self.rank, operation, peer, waited: started.elapsed() }
    }

    /// What the other thread found.
    fn fault(&self, operation: Operation, started: Instant) -> CommError {
        let found = self.fault.get().cloned();
        found.unwrap_or_else(|| self.timeout(operation, self.rank, started))
    }

    fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |&peer| peer != rank)
    }

    /// The slice of `values` that lies in `range`, as a message.
    fn slice(&mut self, peer: usize, values: &[f32], range: Range<usize>) -> Parcel {
        let mut message = self.spare.pop().unwrap_or_default();
        message.clear();
        message.reserve_exact(size_of_val(&values[range.clone()]));
        message.extend(values[range].iter().flat_map(|value| value.to_le_bytes()));
        Parcel::new(peer, message, Stamp::Reduced { n_values: values.len() as u64 })
    }

    /// Sends every peer a slice of `values`, and takes one of each peer in turn.
    fn swap_slices(
        &mut self,
        values: &[f32],
        sent: impl Fn(usize) -> Range<usize>,
        awaited: impl Fn(usize) -> Range<usize>,
        started: Instant,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let parcels = self.peers().map(|peer| self.slice(peer, values, sent(peer))).collect();
        let expected = |peer| {
            let n_bytes = size_of::<f32>() * awaited(peer).len();
            (peer, Expected::Reduced { n_values: values.len(), n_bytes })
        };
        let owed = self.peers().map(expected).collect();
        let claim = self.begin(Lane::Collectives, parcels, Sent::Kept, owed);
        self.take(&claim, Operation::Reduce, started)
    }

    fn sum(&mut self, values: &mut [f32], started: Instant) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size);
        let slices: Vec<Range<usize>> =
            (0..size).map(|peer| reduction::slice_of(values.len(), size, peer)).collect();
        let own = slices[rank].clone();
        let terms =
            self.swap_slices(values, |peer| slices[peer].clone(), |_| own.clone(), started)?;
        self.own_term.clear();
        self.own_term.extend_from_slice(&values[own.clone()]);
        let mut terms = terms.into_iter();
        for peer in 0..size {
            if peer == rank {
                reduction::accumulate(&mut values[own.clone()], &self.own_term, peer);
            } else if let Some(message) = terms.next() {
                self.term.resize(own.len(), 0.0);
                unpack(&message, &mut self.term);
                reduction::accumulate(&mut values[own.clone()], &self.term, peer);
                self.spare.push(message);
            }
        }
        let sums =
            self.swap_slices(values, |_| own.clone(), |peer| slices[peer].clone(), started)?;
        for (peer, message) in self.peers().zip(sums) {
            unpack(&message, &mut values[slices[peer].clone()]);
            self.spare.push(message);
        }
        Ok(())
    }
}

/// The values of a slice that has been found to be as long as planned.
fn unpack(message: &[u8], values: &mut [f32]) {
    let (chunks, _) = message.as_chunks();
    for (value, bytes) in values.iter_mut().zip(chunks) {
        *value = f32::from_le_bytes(*bytes);
    }
}

impl Communicator for Mpi {
    type Buffer = Vec<u8>;
    type Pending = MpiExchange;

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<Vec<u8>>>,
        recvs: &[Incoming],
    ) -> Result<MpiExchange, CommError> {
        contract::assert_start((self.rank, self.size), &sends, recvs);
        self.guarded(|this| {
            let mut parcels = Vec::with_capacity(sends.len());
            for send in sends {
                this.traffic.record(tag, send.payload_bytes, send.metadata_bytes);
                parcels.push(Parcel::new(send.peer, send.buffer, Stamp::Exchange(tag)));
            }
            let expected =
                |recv: &Incoming| (recv.peer, Expected::Exchange { tag, n_bytes: recv.bytes });
            // Lengths come again in training. The raw features of the beginning would lie about.
            let sent = match tag.purpose {
                Purpose::Training => Sent::Kept,
                Purpose::Setup | Purpose::Evaluation => Sent::Freed,
            };
            let owed = recvs.iter().map(expected).collect();
            let claim = this.begin(Lane::Exchanges, parcels, sent, owed);
            Ok(MpiExchange { tag, started: Instant::now(), recvs: recvs.to_vec(), claim })
        })
    }

    fn is_ready(&mut self, pending: &MpiExchange) -> Result<bool, CommError> {
        let MpiExchange { tag, started, claim, .. } = pending;
        self.guarded(|this| {
            if claim.is_met() {
                return Ok(true);
            }
            if let Some(fault) = this.fault.get() {
                return Err(fault.clone());
            }
            match claim.first_missing() {
                Some(peer) if started.elapsed() > this.deadline => {
                    Err(this.timeout(Operation::Exchange(*tag), peer, *started))
                }
                _ => Ok(false),
            }
        })
    }

    fn wait(&mut self, pending: MpiExchange) -> Result<Vec<Received<Vec<u8>>>, CommError> {
        let MpiExchange { tag, recvs, claim, .. } = pending;
        self.guarded(|this| {
            let buffers = this.take(&claim, Operation::Exchange(tag), Instant::now())?;
            let received = |(recv, buffer): (Incoming, _)| Received { peer: recv.peer, buffer };
            Ok(recvs.into_iter().zip(buffers).map(received).collect())
        })
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let started = Instant::now();
        self.guarded(|this| {
            let parcel = |peer| Parcel::new(peer, bytes.to_vec(), Stamp::Gathered);
            let parcels = this.peers().map(parcel).collect();
            let owed = this.peers().map(|peer| (peer, Expected::Gathered)).collect();
            let claim = this.begin(Lane::Collectives, parcels, Sent::Freed, owed);
            let mut gathered = this.take(&claim, Operation::AllGather, started)?;
            gathered.insert(this.rank, bytes.to_vec());
            this.traffic.gathered.record(bytes.len() * (this.size - 1));
            Ok(gathered)
        })
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        let started = Instant::now();
        self.guarded(|this| {
            this.sum(values, started)?;
            let n_bytes = reduction::bytes_sent(values.len(), this.size, this.rank);
            this.traffic.reduced.record(n_bytes);
            Ok(())
        })
    }

    /// Does not return: the job ends with status 1, as [`run_mpi`] says.
    fn abort(&mut self, cause: &str) {
        self.ending.end(FAILED, cause.to_owned());
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}
