//! Ranks with a GPU each, whose messages go from device to device by NCCL.
//!
//! NCCL moves bytes and nothing else: it has no tags, does not compare lengths, and answers a plan that two
//! ranks see differently with a hang. So each rank keeps a second communicator beside it, in host memory - the
//! ranks' [`Threads`](crate::Threads), or MPI - for everything that is not bulk: the tag and length of every
//! message, gathers, sums in rank order (NCCL promises no order of its sums), aborts and deadlines.

mod library;

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use sylvie_device::{Device, DeviceBytes, DeviceError, Memory, Submitted};

use crate::{
    CommError, Communicator, Incoming, MessageLength, Operation, Outgoing, Pass, Purpose, Received,
    Tag, Traffic, contract,
};
use library::{Connection, Id, Part, new_id};

impl MessageLength for DeviceBytes {
    fn n_bytes(&self) -> usize {
        self.n_bytes()
    }
}

/// Settings of ranks with a GPU each; the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclOptions {
    /// How long messages may take to move once both sides know of them. How long one rank waits for
    /// another to know of them is the control communicator's deadline.
    pub deadline: Duration,
}

impl Default for NcclOptions {
    /// 60 s.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(60) }
    }
}

/// The communicator of one rank with a GPU of its own.
///
/// `K` is the control communicator, which the rank must not use otherwise. An exchange is one group of NCCL,
/// on a stream of its own: it is over, and [`wait`](Communicator::wait) returns, when everything has arrived
/// and what this rank sent in it has been taken, unless nothing is to arrive.
///
/// The first error ends NCCL's communicator, so that no device waits for ever.
///
/// # Example
/// ```no_run
/// use sylvie_comm::{
///     Communicator, Incoming, Nccl, NcclOptions, Outgoing, Pass, Purpose, Tag, ThreadOptions,
///     Threads, run_ranks,
/// };
/// use sylvie_device::{Device, DeviceBytes};
///
/// type AnyError = Box<dyn std::error::Error + Send + Sync>;
///
/// let tag = Tag { epoch: 0, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };
/// run_ranks(2, &ThreadOptions::default(), |control: &mut Threads<Vec<u8>>| {
///     let (rank, peer) = (control.rank(), 1 - control.rank());
///     let device = Device::open(rank)?;
///     let mut comm = Nccl::new(control, device.clone(), NcclOptions::default())?;
///     let buffer = DeviceBytes::new(device.upload(&[rank as u8; 16])?);
///     let send = Outgoing { peer, buffer, payload_bytes: 16, metadata_bytes: 0 };
///     let pending = comm.start(tag, vec![send], &[Incoming { peer, bytes: 16 }])?;
///     let received = comm.wait(pending)?;
///     assert_eq!(received[0].buffer.n_bytes(), 16);
///     Ok::<_, AnyError>(())
/// })
/// .expect("two devices, and NCCL");
/// ```
pub struct Nccl<K: Communicator<Buffer = Vec<u8>>> {
    control: K,
    device: Device,
    options: NcclOptions,
    /// `None` once dropped.
    connection: Option<Connection>,
    flights: BTreeMap<u64, Flight<K::Pending>>,
    n_started: u64,
    /// An exchange of nothing, asked for whether the run has been aborted.
    probe: Option<K::Pending>,
    traffic: Traffic,
    failure: Option<CommError>,
}

/// An exchange in flight between devices.
#[derive(Debug)]
#[must_use = "an exchange must be waited for"]
pub struct NcclExchange {
    rank: usize,
    number: u64,
}

struct Flight<P> {
    tag: Tag,
    started: Instant,
    recvs: Vec<Incoming>,
    /// The lengths that peers say they send, until they have all come.
    headers: Option<P>,
    group: Option<Submitted>,
    /// One an entry of `recvs`.
    incoming: Vec<Memory>,
    /// What is sent, until it is gone.
    _outgoing: Vec<DeviceBytes>,
}

fn failed(error: &DeviceError) -> CommError {
    CommError::Transport { reason: error.to_string() }
}

/// Pauses between two looks at a device.
const SHORTEST_PAUSE: Duration = Duration::from_micros(5);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

impl<K: Communicator<Buffer = Vec<u8>>> Nccl<K> {
    /// Connects the ranks of `control`, each with `device`, which no two of them share.
    ///
    /// All ranks call this at once. Every pair exchanges a byte, so that later exchanges find their ways open.
    ///
    /// # Errors
    /// [`CommError::Transport`] with what is missing or what NCCL says; what `control` says.
    pub fn new(mut control: K, device: Device, options: NcclOptions) -> Result<Self, CommError> {
        let (rank, size) = (control.rank(), control.size());
        let own = if rank == 0 { new_id() } else { Ok([0; _]) };
        // Without a name rank 0 tells why, in more bytes than a name has, so that whichever rank is heard says it.
        let told = match &own {
            Ok(id) => id.to_vec(),
            Err(error) => format!("{:128}{error}", "").into_bytes(),
        };
        let told = control.all_gather(&told)?;
        own.map_err(|error| failed(&error))?;
        let id = Id::try_from(&*told[0]).map_err(|_| {
            let reason = String::from_utf8_lossy(&told[0]).trim().to_owned();
            CommError::Transport { reason }
        })?;
        let connection =
            Connection::new(&device, &id, (rank, size)).map_err(|error| failed(&error))?;
        let tag = Tag { epoch: 0, layer: 0, pass: Pass::Forward, purpose: Purpose::Setup };
        let probe = control.start(tag, Vec::new(), &[])?;
        let mut this = Self {
            control,
            device,
            options,
            connection: Some(connection),
            flights: BTreeMap::new(),
            n_started: 0,
            probe: Some(probe),
            traffic: Traffic::default(),
            failure: None,
        };
        this.open_ways(tag)?;
        this.control.take_traffic();
        this.traffic = Traffic::default();
        Ok(this)
    }

    fn open_ways(&mut self, tag: Tag) -> Result<(), CommError> {
        let (rank, size) = (self.rank(), self.size());
        let peers = (0..size).filter(|&peer| peer != rank);
        let recvs: Vec<_> = peers.clone().map(|peer| Incoming { peer, bytes: 1 }).collect();
        let mut sends = Vec::new();
        for peer in peers {
            let byte = self.device.upload(&[rank as u8]).map_err(|error| failed(&error))?;
            let buffer = DeviceBytes::new(byte);
            sends.push(Outgoing { peer, buffer, payload_bytes: 1, metadata_bytes: 0 });
        }
        let pending = self.start(tag, sends, &recvs)?;
        self.wait(pending).map(drop)
    }

    /// Runs one operation unless the rank has failed; its error is remembered, and ends NCCL's work.
    fn guarded<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, CommError>,
    ) -> Result<T, CommError> {
        if let Some(failure) = &self.failure {
            // The control communicator knows whether the run has been aborted since.
            let probed = self.probe.as_ref().map(|probe| self.control.is_ready(probe));
            return match probed {
                Some(Err(aborted @ CommError::Aborted { .. })) => Err(aborted),
                _ => Err(failure.clone()),
            };
        }
        let outcome = run(self);
        if let Err(failure) = &outcome {
            self.failure = Some(failure.clone());
            self.abort_transport();
        }
        outcome
    }

    fn abort_transport(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.abort();
        }
    }

    /// The message on this rank's device; from elsewhere it comes by the host.
    fn at_home(&self, buffer: DeviceBytes) -> Result<DeviceBytes, DeviceError> {
        match buffer.memory() {
            Some(memory) if memory.device() != &self.device => {
                let mut bytes = vec![0; memory.n_bytes()];
                memory.device().read(memory, &mut bytes)?;
                self.device.upload(&bytes).map(DeviceBytes::new)
            }
            _ => Ok(buffer),
        }
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("there until this is dropped")
    }

    /// Submits the messages of a flight as one group; empty ones do not travel.
    fn submit(
        &mut self,
        sends: &[Outgoing<DeviceBytes>],
        recvs: &[Incoming],
    ) -> Result<(Option<Submitted>, Vec<Memory>), DeviceError> {
        let mut incoming = Vec::with_capacity(recvs.len());
        for recv in recvs {
            incoming.push(self.device.allocate(recv.bytes)?);
        }
        let outgoing = sends.iter().filter_map(|send| {
            let memory = send.buffer.memory().filter(|memory| memory.n_bytes() > 0)?;
            Some(Part { peer: send.peer, memory })
        });
        let outgoing: Vec<_> = outgoing.collect();
        let parts = recvs.iter().zip(&mut incoming).filter(|(recv, _)| recv.bytes > 0);
        let mut parts: Vec<_> =
            parts.map(|(recv, memory)| Part { peer: recv.peer, memory }).collect();
        if outgoing.is_empty() && parts.is_empty() {
            return Ok((None, incoming));
        }
        let group = self.connection.as_mut().expect("there until this is dropped");
        let group = group.exchange(&outgoing, &mut parts)?;
        drop(parts);
        Ok((Some(group), incoming))
    }

    /// Takes the peers' lengths once they have come, and holds them to the plan; says whether they have.
    fn take_headers(&mut self, number: u64) -> Result<bool, CommError> {
        let flight = self.flights.get_mut(&number).expect("an exchange in flight");
        let Some(headers) = &flight.headers else { return Ok(true) };
        if !self.control.is_ready(headers)? {
            return Ok(false);
        }
        let Some(headers) = flight.headers.take() else { return Ok(true) };
        let (tag, recvs) = (flight.tag, flight.recvs.clone());
        for (header, recv) in self.control.wait(headers)?.iter().zip(recvs) {
            let found =
                u64::from_le_bytes(header.buffer[..].try_into().unwrap_or_default()) as usize;
            let (peer, expected) = (recv.peer, recv.bytes);
            if found != expected {
                return Err(CommError::WrongLength { tag, peer, expected, found });
            }
        }
        Ok(true)
    }

    /// Whether all of a flight is here.
    fn has_landed(&mut self, number: u64) -> Result<bool, CommError> {
        if !self.take_headers(number)? {
            return Ok(false);
        }
        let flight = &self.flights[&number];
        match flight.group {
            Some(group) if !flight.recvs.is_empty() => {
                if self.connection().is_over(group).map_err(|error| failed(&error))? {
                    return Ok(true);
                }
                // Peers that fail do not say so by NCCL.
                match &self.probe {
                    Some(probe) => self.control.is_ready(probe).map(|_| false),
                    None => Ok(false),
                }
            }
            _ => Ok(true),
        }
    }

    fn check_deadline(&self, number: u64, since: Instant) -> Result<(), CommError> {
        let waited = since.elapsed();
        if waited <= self.options.deadline {
            return Ok(());
        }
        let flight = &self.flights[&number];
        let peer = flight.recvs.first().map_or(self.rank(), |recv| recv.peer);
        let operation = Operation::Exchange(flight.tag);
        Err(CommError::Timeout { rank: self.rank(), operation, peer, waited })
    }

    fn assert_own(&self, pending: &NcclExchange) {
        let (rank, found) = (self.rank(), pending.rank);
        assert!(rank == found, "rank {rank} waits for an exchange of rank {found}");
    }

    /// Takes over what the control communicator has counted of collectives; its exchanges are not traffic.
    fn count_collectives(&mut self) {
        let counted = self.control.take_traffic();
        self.traffic.gathered += counted.gathered;
        self.traffic.reduced += counted.reduced;
    }
}

impl<K: Communicator<Buffer = Vec<u8>>> Communicator for Nccl<K> {
    type Buffer = DeviceBytes;
    type Pending = NcclExchange;

    fn rank(&self) -> usize {
        self.control.rank()
    }

    fn size(&self) -> usize {
        self.control.size()
    }

    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<DeviceBytes>>,
        recvs: &[Incoming],
    ) -> Result<NcclExchange, CommError> {
        contract::assert_start((self.rank(), self.size()), &sends, recvs);
        self.guarded(|this| {
            let mut at_home = Vec::with_capacity(sends.len());
            for send in sends {
                let buffer = this.at_home(send.buffer).map_err(|error| failed(&error))?;
                at_home.push(Outgoing { buffer, ..send });
            }
            let sends = at_home;
            // Posted before the peers hear of it: who has heard of a message can have it.
            let (group, incoming) = this.submit(&sends, recvs).map_err(|error| failed(&error))?;
            let mut headers = Vec::with_capacity(sends.len());
            for send in &sends {
                let buffer = (send.buffer.n_bytes() as u64).to_le_bytes().to_vec();
                let payload_bytes = buffer.len() as u64;
                headers.push(Outgoing {
                    peer: send.peer,
                    buffer,
                    payload_bytes,
                    metadata_bytes: 0,
                });
                this.traffic.record(tag, send.payload_bytes, send.metadata_bytes);
            }
            let awaited: Vec<_> = recvs.iter().map(|recv| Incoming { bytes: 8, ..*recv }).collect();
            let headers = this.control.start(tag, headers, &awaited)?;
            let number = this.n_started;
            this.n_started += 1;
            let flight = Flight {
                tag,
                started: Instant::now(),
                recvs: recvs.to_vec(),
                headers: Some(headers),
                group,
                incoming,
                _outgoing: sends.into_iter().map(|send| send.buffer).collect(),
            };
            this.flights.insert(number, flight);
            Ok(NcclExchange { rank: this.rank(), number })
        })
    }

    fn is_ready(&mut self, pending: &NcclExchange) -> Result<bool, CommError> {
        self.assert_own(pending);
        let number = pending.number;
        self.guarded(|this| {
            let is_here = this.has_landed(number)?;
            if !is_here {
                this.check_deadline(number, this.flights[&number].started)?;
            }
            Ok(is_here)
        })
    }

    fn wait(&mut self, pending: NcclExchange) -> Result<Vec<Received<DeviceBytes>>, CommError> {
        self.assert_own(&pending);
        let (number, since) = (pending.number, Instant::now());
        self.guarded(|this| {
            let mut pause = SHORTEST_PAUSE;
            while !this.has_landed(number)? {
                this.check_deadline(number, since)?;
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            let flight = this.flights.remove(&number).expect("an exchange in flight");
            let received = |(recv, memory): (Incoming, Memory)| {
                let buffer =
                    if recv.bytes > 0 { DeviceBytes::new(memory) } else { DeviceBytes::default() };
                Received { peer: recv.peer, buffer }
            };
            Ok(flight.recvs.into_iter().zip(flight.incoming).map(received).collect())
        })
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.guarded(|this| {
            let gathered = this.control.all_gather(bytes)?;
            this.count_collectives();
            Ok(gathered)
        })
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        self.guarded(|this| {
            this.control.reduce(values)?;
            this.count_collectives();
            Ok(())
        })
    }

    fn abort(&mut self, cause: &str) {
        self.control.abort(cause);
        self.abort_transport();
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}

impl<K: Communicator<Buffer = Vec<u8>>> fmt::Debug for Nccl<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, size) = (self.rank(), self.size());
        let is_aborted = self.connection.as_ref().is_some_and(Connection::is_aborted);
        let mut shown = f.debug_struct("Nccl");
        shown.field("rank", &rank).field("size", &size).field("is_aborted", &is_aborted);
        shown.finish_non_exhaustive()
    }
}

impl<K: Communicator<Buffer = Vec<u8>>> Drop for Nccl<K> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort_transport();
        }
        if let Some(probe) = self.probe.take() {
            // It has been ready from its beginning; what it says now concerns nobody.
            let _ = self.control.wait(probe);
        }
        if let Some(connection) = self.connection.take() {
            if connection.is_busy() {
                // Peers may still read what was sent: its memory goes with the connection.
                std::mem::take(&mut self.flights).into_values().for_each(std::mem::forget);
            }
            connection.leave();
        }
    }
}
