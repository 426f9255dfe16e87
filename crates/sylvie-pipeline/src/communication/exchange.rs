//! Encoding, sending, receiving and decoding: one rank's end of the exchanges of a run.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use sylvie_comm::{CommError, Communicator, Incoming, Outgoing, Received};
use sylvie_gnn::Input;
use sylvie_lowbit::{DecodeError, EncodeError};
use sylvie_random::{Family, Pass};
use sylvie_tensor::Wire;

use super::buffers::Buffers;
use super::smoothing::Averages;
use super::{Arrived, Call, CommNeeds, CommTimes, Job, Rows, Smoothing};
use crate::error::TrainError;
use crate::instruments::{Activity, Lane, Watch};
use crate::sample::Sample;
use crate::schedule::Parts;
use crate::stage::{ExchangePlan, Stage};

pub(super) struct Exchanger<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> {
    backend: &'a B,
    pub(super) comm: &'a mut C,
    pub(super) watch: Watch<'a>,
    seed: u64,
    buffers: Buffers<B>,
    averages: Averages<B>,
    times: CommTimes,
    n_under_way: usize,
    /// Since when something has been under way, or was last accounted for.
    busy_since: Duration,
}

/// An exchange under way.
pub(super) struct Flight<B: Wire, P> {
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
    pending: P,
    sent: Duration,
}

impl<B: Wire, P> Flight<B, P> {
    pub(super) fn slot(&self) -> usize {
        self.slot
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
        CommNeeds { seed, n_slots, memory }: CommNeeds,
    ) -> Self {
        let buffers = Buffers::new(comm.size(), n_slots, memory);
        let averages = Averages::new(n_slots);
        let (times, busy_since) = (CommTimes::default(), Duration::ZERO);
        Self { backend, comm, watch, seed, buffers, averages, times, n_under_way: 0, busy_since }
    }

    /// Encodes and sends the rows of a job, and notes what must come.
    pub(super) fn start(&mut self, job: Job<B>) -> Result<Flight<B, C::Pending>, TrainError> {
        let Job { call, slot, n_cols, parts, rows, stage, sample, mask, smoothing, .. } = job;
        let when = (call.purpose, call.epoch);
        let began = self.watch.now();
        if self.n_under_way == 0 {
            self.busy_since = began;
        }
        self.n_under_way += 1;
        let plan = &stage.plan;
        let sends = match &rows {
            Rows::Own(own) => self.encode_own(call, plan, sample.as_deref(), parts, own)?,
            Rows::HaloGradients(gradients) => {
                self.encode_gradients(call, &stage, sample.as_deref(), gradients)?
            }
        };
        drop(rows);
        let awaited = awaited(call.pass, plan, sample.as_deref(), parts);
        let recvs: Vec<Incoming> = awaited
            .iter()
            .map(|message| Incoming {
                peer: message.peer,
                bytes: call.codec.message_bytes(message.n_rows, n_cols),
            })
            .collect();
        let pending = self.comm.start(call.tag(), sends, &recvs).map_err(comm_error(call))?;
        let activity = Activity::Encode(call.layer, call.pass);
        self.times.encode += self.watch.note(Lane::Communication, activity, when, began);
        let sources = awaited.iter().map(|message| message.source).collect();
        let sent = self.watch.now();
        Ok(Flight {
            call,
            slot,
            n_cols,
            parts,
            stage,
            sample,
            mask,
            smoothing,
            sources,
            pending,
            sent,
        })
    }

    pub(super) fn has_arrived(
        &mut self,
        flight: &Flight<B, C::Pending>,
    ) -> Result<bool, TrainError> {
        self.comm.is_ready(&flight.pending).map_err(comm_error(flight.call))
    }

    /// Waits for the rows of an exchange, decodes and delivers them.
    pub(super) fn complete(
        &mut self,
        flight: Flight<B, C::Pending>,
        slots: &[Sender<Arrived<B>>],
    ) -> Result<(), TrainError> {
        let Flight { call, slot, n_cols, parts, stage, sample, mask, smoothing, .. } = flight;
        let Flight { sources, pending, sent, .. } = flight;
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
            Pass::Backward if !is_part(parts, stage.plan.rank) => Arrived::Nothing,
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
        self.n_under_way -= 1;
        if self.n_under_way == 0 {
            self.times.exchange += self.watch.now().saturating_sub(self.busy_since);
        }
        Ok(())
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

    fn outgoing(
        &self,
        call: Call,
        peer: usize,
        (n_rows, n_cols): (usize, usize),
        buffer: B::Bytes,
    ) -> Outgoing<B::Bytes> {
        let payload_bytes = call.codec.payload_bytes(n_rows, n_cols) as u64;
        let metadata_bytes = call.codec.metadata_bytes(n_rows) as u64;
        Outgoing { peer, buffer, payload_bytes, metadata_bytes }
    }

    fn encode_error(&self, call: Call, ids: &[u32], source: EncodeError) -> TrainError {
        encode_error(call, self.comm.rank(), ids, source)
    }

    /// Encodes each boundary row once, and gives every reader its rows.
    fn encode_own(
        &mut self,
        call: Call,
        plan: &ExchangePlan<B>,
        sample: Option<&Sample<B>>,
        parts: Parts,
        own: &B::Matrix,
    ) -> Result<Vec<Outgoing<B::Bytes>>, TrainError> {
        let rank = self.comm.rank();
        if !is_part(parts, rank) || plan.sends.is_empty() {
            return Ok(Vec::new());
        }
        let (rows, keys, ids) = match sample {
            None => (&plan.boundary, &plan.boundary_keys, &plan.boundary_ids),
            Some(sample) => (&sample.boundary, &sample.boundary_keys, &sample.boundary_ids),
        };
        let (backend, n_cols) = (self.backend, self.backend.shape(own).1);
        let staging = self.buffers.take_staging(backend);
        let draws = call.rounding(self.seed, rank);
        let encoded = backend.encode_rows(call.codec, own, rows, keys, draws, staging);
        let encoded = encoded.map_err(|source| self.encode_error(call, ids, source))?;
        let mut sends = Vec::with_capacity(plan.sends.len());
        for (at, send) in plan.sends.iter().enumerate() {
            let (n_rows, selected) = match sample {
                None => (send.host_positions.len(), &send.positions),
                Some(sample) => (sample.sends[at].n_rows, &sample.sends[at].selected),
            };
            if n_rows == 0 {
                continue;
            }
            let buffer = self.buffers.take(backend, send.reader, call.pass);
            let shape = (ids.len(), n_cols);
            let message = backend.select_rows(call.codec, &encoded, shape, selected, buffer);
            let message = message.map_err(|source| decode_error(call, rank, rank, source))?;
            sends.push(self.outgoing(call, send.reader, (n_rows, n_cols), message));
        }
        self.buffers.keep_staging(encoded);
        Ok(sends)
    }

    /// Encodes the gradients of halo rows, each block for its owner.
    fn encode_gradients(
        &mut self,
        call: Call,
        stage: &Stage<B>,
        sample: Option<&Sample<B>>,
        gradients: &[(usize, B::Matrix)],
    ) -> Result<Vec<Outgoing<B::Bytes>>, TrainError> {
        let draws = call.rounding(self.seed, self.comm.rank());
        let backend = self.backend;
        let mut sends = Vec::with_capacity(gradients.len());
        for (block, rows) in gradients {
            let planned = &stage.plan.halo[*block];
            let (owner, n_cols) = (planned.owner, backend.shape(rows).1);
            let kept = sample.map(|sample| &sample.halo[*block]);
            if kept.map_or(planned.ids.len(), |kept| kept.n_rows) == 0 {
                continue;
            }
            let buffer = self.buffers.take(backend, owner, call.pass);
            let (n_rows, ids, encoded) = match kept {
                None => {
                    let keys = &stage.structure.halo[*block].keys;
                    let encoded = backend.encode_all_rows(call.codec, rows, keys, draws, buffer);
                    (planned.ids.len(), &planned.ids, encoded)
                }
                Some(kept) => {
                    let (places, keys) = (&kept.rows, &kept.keys);
                    let encoded =
                        backend.encode_rows(call.codec, rows, places, keys, draws, buffer);
                    (kept.n_rows, &kept.ids, encoded)
                }
            };
            let encoded = encoded.map_err(|source| self.encode_error(call, ids, source))?;
            sends.push(self.outgoing(call, owner, (n_rows, n_cols), encoded));
        }
        Ok(sends)
    }

    /// The halo rows of each block that came.
    fn decode_halo(
        &mut self,
        call: Call,
        n_cols: usize,
        stage: &Stage<B>,
        sample: Option<&Sample<B>>,
        messages: impl Iterator<Item = (usize, Received<B::Bytes>)>,
    ) -> Result<Vec<(usize, Input<B>)>, TrainError> {
        let (backend, rank) = (self.backend, self.comm.rank());
        let mut blocks = Vec::new();
        for (block, Received { peer, buffer }) in messages {
            let n_rows = stage.plan.halo[block].ids.len();
            let (rows, decoded) = match sample {
                None => {
                    let mut rows = backend.matrix_to_assign(n_rows, n_cols);
                    let decoded = backend.decode_rows(call.codec, &buffer, &mut rows);
                    (rows, decoded)
                }
                Some(sample) => {
                    let mut rows = backend.zeros(n_rows, n_cols);
                    let places = &sample.halo[block].rows;
                    let decoded = backend.decode_add_rows(call.codec, &buffer, places, &mut rows);
                    (rows, decoded)
                }
            };
            decoded.map_err(|source| decode_error(call, rank, peer, source))?;
            self.buffers.keep(peer, call.pass, buffer);
            blocks.push((block, Input::dense(rows)));
        }
        Ok(blocks)
    }

    /// Adds zeros for the blocks of which the sample has no row: they did not come.
    fn add_silent(
        &self,
        n_cols: usize,
        plan: &ExchangePlan<B>,
        parts: Parts,
        blocks: &mut Vec<(usize, Input<B>)>,
    ) {
        let is_meant = |owner: usize| is_part(parts, owner);
        let n_meant = plan.halo.iter().filter(|block| is_meant(block.owner)).count();
        if blocks.len() == n_meant {
            return;
        }
        for (number, block) in plan.halo.iter().enumerate() {
            let is_there = blocks.iter().any(|(other, _)| *other == number);
            if is_meant(block.owner) && !is_there {
                blocks.push((number, Input::dense(self.backend.zeros(block.ids.len(), n_cols))));
            }
        }
        blocks.sort_by_key(|(number, _)| *number);
    }

    /// The gradients of boundary rows, added up over the readers in ascending order.
    fn decode_gradients(
        &mut self,
        call: Call,
        n_cols: usize,
        plan: &ExchangePlan<B>,
        sample: Option<&Sample<B>>,
        messages: impl Iterator<Item = (usize, Received<B::Bytes>)>,
    ) -> Result<B::Matrix, TrainError> {
        let (backend, rank) = (self.backend, self.comm.rank());
        let mut sums = backend.zeros(plan.boundary_ids.len(), n_cols);
        for (send, Received { peer, buffer }) in messages {
            let places = match sample {
                None => &plan.sends[send].positions,
                Some(sample) => &sample.sends[send].positions,
            };
            let decoded = backend.decode_add_rows(call.codec, &buffer, places, &mut sums);
            decoded.map_err(|source| decode_error(call, rank, peer, source))?;
            self.buffers.keep(peer, call.pass, buffer);
        }
        Ok(sums)
    }
}

fn is_part(parts: Parts, part: usize) -> bool {
    match parts {
        Parts::All => true,
        Parts::Owner(owner) => owner as usize == part,
    }
}

/// The messages that must come, peers ascending; a peer that has nothing to send is left out.
fn awaited<B: Wire>(
    pass: Pass,
    plan: &ExchangePlan<B>,
    sample: Option<&Sample<B>>,
    parts: Parts,
) -> Vec<Message> {
    let is_meant = |owner: usize| is_part(parts, owner);
    let message = |peer, n_rows, source| Message { peer, n_rows, source };
    let mut messages: Vec<Message> = match pass {
        Pass::Forward => {
            let blocks = plan.halo.iter().enumerate().filter(|(_, block)| is_meant(block.owner));
            let n_rows = |at: usize, n_all| sample.map_or(n_all, |sample| sample.halo[at].n_rows);
            blocks.map(|(at, b)| message(b.owner, n_rows(at, b.ids.len()), at)).collect()
        }
        Pass::Backward if !is_meant(plan.rank) => Vec::new(),
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

pub(crate) fn encode_error(
    call: Call,
    rank: usize,
    ids: &[u32],
    source: EncodeError,
) -> TrainError {
    let Call { epoch, layer, pass, .. } = call;
    let node = ids.get(source.row()).copied().unwrap_or(u32::MAX);
    TrainError::Encode { epoch, layer, pass, rank, node, source }
}

pub(crate) fn decode_error(
    call: Call,
    rank: usize,
    peer: usize,
    source: DecodeError,
) -> TrainError {
    let Call { epoch, layer, pass, .. } = call;
    TrainError::Decode { epoch, layer, pass, rank, peer, source }
}
