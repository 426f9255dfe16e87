//! One rank's end of the exchanges of a run, from the first row encoded to the last delivered.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use sylvie_comm::{CommError, Communicator, Incoming, Outgoing, Purpose, Traffic};
use sylvie_random::{Family, Pass};
use sylvie_tensor::Wire;

use super::buffers::Buffers;
use super::smoothing::Averages;
use super::{Arrived, Call, CommNeeds, CommTimes, Job, Rows, Smoothing};
use crate::error::TrainError;
use crate::instruments::{Activity, Lane, Watch};
use crate::policy::HaloRows;
use crate::sample::Sample;
use crate::schedule::Parts;
use crate::stage::{ExchangePlan, Stage};

pub(super) struct Exchanger<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> {
    pub(super) backend: &'a B,
    pub(super) comm: &'a mut C,
    pub(super) watch: Watch<'a>,
    pub(super) seed: u64,
    pub(super) halo: HaloRows,
    buffers: Buffers<B>,
    /// Whether evaluations share them.
    is_alike: bool,
    pub(super) averages: Averages<B>,
    times: CommTimes,
    n_under_way: usize,
    /// Since when something has been under way, or was last accounted for.
    busy_since: Duration,
}

/// An exchange under way.
pub(super) struct Flight<B: Wire, P> {
    terms: Terms<B>,
    pending: P,
    sent: Duration,
}

/// What an exchange is about, and what becomes of the rows that come.
struct Terms<B: Wire> {
    call: Call,
    slot: usize,
    n_cols: usize,
    parts: Parts,
    stage: Arc<Stage<B>>,
    sample: Option<Arc<Sample<B>>>,
    mask: Option<(f32, Family)>,
    smoothing: Smoothing,
    /// Numbers of the halo blocks, or of the planned sends, whose rows come.
    sources: Vec<usize>,
}

impl<B: Wire, P> Flight<B, P> {
    pub(super) fn slot(&self) -> usize {
        self.terms.slot
    }
}

/// Encoded rows of an exchange that has not been started.
pub(super) struct Parcel<B: Wire> {
    terms: Terms<B>,
    sends: Vec<Outgoing<B::Bytes>>,
    recvs: Vec<Incoming>,
}

impl<B: Wire> Parcel<B> {
    /// Counts what will be sent.
    pub(super) fn count(&self, traffic: &mut Traffic) {
        for message in &self.sends {
            traffic.record(self.terms.call.tag(), message.payload_bytes, message.metadata_bytes);
        }
    }
}

/// Rows of one message.
struct Message {
    peer: usize,
    n_rows: usize,
    /// Number of the halo block or of the planned send.
    source: usize,
}

impl<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> Exchanger<'a, B, C> {
    pub(super) fn new(
        backend: &'a B,
        comm: &'a mut C,
        watch: Watch<'a>,
        CommNeeds { seed, n_slots, halo, memory, is_alike }: CommNeeds,
    ) -> Self {
        let buffers = Buffers::new(comm.size(), n_slots, memory);
        let averages = Averages::new(n_slots);
        Self {
            backend,
            comm,
            watch,
            seed,
            halo,
            buffers,
            is_alike,
            averages,
            times: CommTimes::default(),
            n_under_way: 0,
            busy_since: Duration::ZERO,
        }
    }

    /// Whether buffers of this exchange go round.
    fn goes_round(&self, call: Call) -> bool {
        self.is_alike || call.purpose == Purpose::Training
    }

    /// A buffer for a message to `peer`.
    pub(super) fn take_buffer(&mut self, call: Call, peer: usize) -> B::Bytes {
        match self.goes_round(call) {
            true => self.buffers.take(self.backend, peer, call.pass),
            false => self.backend.bytes_from_host(Vec::new()),
        }
    }

    /// Keeps the buffer of a message that came from `peer`.
    pub(super) fn keep_buffer(&mut self, call: Call, peer: usize, buffer: B::Bytes) {
        if self.goes_round(call) {
            self.buffers.keep(peer, call.pass, buffer);
        }
    }

    /// The buffer that boundary rows are encoded into before each reader gets its own.
    pub(super) fn take_staging(&mut self, call: Call) -> B::Bytes {
        match self.goes_round(call) {
            true => self.buffers.take_staging(self.backend),
            false => self.backend.bytes_from_host(Vec::new()),
        }
    }

    pub(super) fn keep_staging(&mut self, call: Call, buffer: B::Bytes) {
        if self.goes_round(call) {
            self.buffers.keep_staging(buffer);
        }
    }

    /// Encodes and sends the rows of a job, and notes what must come.
    pub(super) fn start(&mut self, job: Job<B>) -> Result<Flight<B, C::Pending>, TrainError> {
        let parcel = self.encode(job)?;
        self.send(parcel)
    }

    /// Encodes the rows of a job, and lists what must come.
    fn encode(&mut self, job: Job<B>) -> Result<Parcel<B>, TrainError> {
        let Job { call, slot, n_cols, parts, rows, stage, sample, mask, smoothing, .. } = job;
        let when = (call.purpose, call.epoch);
        let began = self.watch.now();
        self.one_more_under_way();
        let plan = &stage.plan;
        let sends = match &rows {
            Rows::Own(own) => self.encode_own(call, plan, sample.as_deref(), parts, own)?,
            Rows::HaloGradients(gradients) => {
                self.encode_gradients(call, &stage, sample.as_deref(), gradients)?
            }
        };
        drop(rows);
        let awaited = awaited(call.pass, plan, sample.as_deref(), parts);
        let bytes = |message: &Message| call.codec.message_bytes(message.n_rows, n_cols);
        let incoming = |message: &Message| Incoming { peer: message.peer, bytes: bytes(message) };
        let recvs = awaited.iter().map(incoming).collect();
        let activity = Activity::Encode(call.layer, call.pass);
        self.times.encode += self.watch.note(Lane::Communication, activity, when, began);
        let sources = awaited.iter().map(|message| message.source).collect();
        let terms = Terms { call, slot, n_cols, parts, stage, sample, mask, smoothing, sources };
        Ok(Parcel { terms, sends, recvs })
    }

    /// Sends encoded rows.
    fn send(&mut self, parcel: Parcel<B>) -> Result<Flight<B, C::Pending>, TrainError> {
        let Parcel { terms, sends, recvs } = parcel;
        let call = terms.call;
        let pending = self.comm.start(call.tag(), sends, &recvs).map_err(comm_error(call))?;
        Ok(Flight { terms, pending, sent: self.watch.now() })
    }

    pub(super) fn has_arrived(
        &mut self,
        flight: &Flight<B, C::Pending>,
    ) -> Result<bool, TrainError> {
        self.comm.is_ready(&flight.pending).map_err(comm_error(flight.terms.call))
    }

    /// Waits for the rows of an exchange, decodes and delivers them.
    pub(super) fn complete(
        &mut self,
        flight: Flight<B, C::Pending>,
        slots: &[Sender<Arrived<B>>],
    ) -> Result<(), TrainError> {
        let Flight { terms, pending, sent } = flight;
        let Terms { call, slot, n_cols, parts, stage, sample, mask, smoothing, sources } = terms;
        let when = (call.purpose, call.epoch);
        let received = self.comm.wait(pending).map_err(comm_error(call))?;
        self.watch.note(Lane::Network, Activity::Transfer(call.layer, call.pass), when, sent);
        let began = self.watch.now();
        let messages = sources.iter().copied().zip(received);
        let arrived = match call.pass {
            Pass::Forward => {
                let mut blocks =
                    self.decode_halo(call, n_cols, &stage, sample.as_deref(), messages)?;
                self.add_silent(n_cols, &stage.plan, parts, &mut blocks);
                Arrived::Halo { blocks, sample }
            }
            Pass::Backward if !parts.include(stage.plan.rank) => Arrived::Nothing,
            Pass::Backward => {
                let sample = sample.as_deref();
                let mut sums =
                    self.decode_gradients(call, n_cols, &stage.plan, sample, messages)?;
                if let Some((rate, draws)) = mask {
                    self.backend.dropout(rate, draws, &stage.plan.boundary_keys, &mut sums);
                }
                Arrived::Boundary(Arc::new(sums))
            }
        };
        self.deliver(&slots[slot], slot, smoothing, arrived);
        let activity = Activity::Decode(call.layer, call.pass);
        self.times.decode += self.watch.note(Lane::Communication, activity, when, began);
        self.one_less_under_way();
        Ok(())
    }

    fn one_more_under_way(&mut self) {
        if self.n_under_way == 0 {
            self.busy_since = self.watch.now();
        }
        self.n_under_way += 1;
    }

    fn one_less_under_way(&mut self) {
        self.n_under_way -= 1;
        if self.n_under_way == 0 {
            self.times.exchange += self.watch.now().saturating_sub(self.busy_since);
        }
    }

    /// Encodes the rows of a job to be sent later: until then nothing of it is under way.
    pub(super) fn hold(&mut self, job: Job<B>) -> Result<Parcel<B>, TrainError> {
        let parcel = self.encode(job)?;
        self.one_less_under_way();
        Ok(parcel)
    }

    /// Sends rows that were held.
    pub(super) fn let_go(&mut self, held: Parcel<B>) -> Result<Flight<B, C::Pending>, TrainError> {
        self.one_more_under_way();
        self.send(held)
    }

    pub(super) fn take_times(&mut self) -> CommTimes {
        if self.n_under_way > 0 {
            let now = self.watch.now();
            self.times.exchange += now.saturating_sub(self.busy_since);
            self.busy_since = now;
        }
        std::mem::take(&mut self.times)
    }

    /// Hands rows to whoever computes, who may be gone.
    fn deliver(
        &mut self,
        to: &Sender<Arrived<B>>,
        slot: usize,
        smoothing: Smoothing,
        arrived: Arrived<B>,
    ) {
        match smoothing {
            Smoothing::Off => drop(to.send(arrived)),
            Smoothing::Instead(decay) => {
                drop(to.send(self.averages.update(self.backend, slot, decay, &arrived)));
            }
            Smoothing::Beside(decay) => {
                let average = self.averages.update(self.backend, slot, decay, &arrived);
                drop(to.send(arrived));
                drop(to.send(average));
            }
        }
    }
}

/// The messages that must come, peers ascending; a peer that has nothing to send is left out.
fn awaited<B: Wire>(
    pass: Pass,
    plan: &ExchangePlan<B>,
    sample: Option<&Sample<B>>,
    parts: Parts,
) -> Vec<Message> {
    let message = |peer, n_rows, source| Message { peer, n_rows, source };
    let mut messages: Vec<Message> = match pass {
        Pass::Forward => {
            let blocks =
                plan.halo.iter().enumerate().filter(|(_, block)| parts.include(block.owner));
            let n_rows = |at: usize, n_all| sample.map_or(n_all, |sample| sample.halo[at].n_rows);
            blocks.map(|(at, b)| message(b.owner, n_rows(at, b.ids.len()), at)).collect()
        }
        Pass::Backward if !parts.include(plan.rank) => Vec::new(),
        Pass::Backward => {
            let sends = plan.sends.iter().enumerate();
            let n_rows = |at: usize, n_all| sample.map_or(n_all, |sample| sample.sends[at].n_rows);
            sends.map(|(at, s)| message(s.reader, n_rows(at, s.host_positions.len()), at)).collect()
        }
    };
    messages.retain(|message| message.n_rows > 0);
    messages
}

fn comm_error(call: Call) -> impl FnOnce(CommError) -> TrainError {
    move |source| TrainError::Comm { epoch: call.epoch, source }
}
