//! Exchange of boundary rows and of halo rows' gradients.

use sylvie_comm::{Communicator, Incoming, Outgoing, Purpose, Tag};
use sylvie_gnn::Structure;
use sylvie_graph::PartGraph;
use sylvie_lowbit::{EncodeError, RowCodec};
use sylvie_random::{Coordinates, Pass, Stream};
use sylvie_tensor::{Backend, Wire};

use crate::clock::{Clock, Stopwatch, timed};
use crate::error::TrainError;

/// A part's plan on a backend.
pub(crate) struct ExchangePlan<B: Backend> {
    boundary_ids: Vec<u32>,
    boundary: B::Index,
    boundary_keys: B::Index,
    sends: Vec<PlannedSend<B>>,
    /// Global ids of the halo rows, a block an entry.
    halo_ids: Vec<Vec<u32>>,
}

struct PlannedSend<B: Backend> {
    reader: usize,
    n_rows: usize,
    rows: B::Index,
    positions: B::Index,
}

impl<B: Backend> ExchangePlan<B> {
    pub(crate) fn new(backend: &B, part: &PartGraph) -> Self {
        let boundary = &part.plan.boundary;
        let boundary_ids: Vec<u32> =
            boundary.iter().map(|&row| part.own_ids[row as usize]).collect();
        let sends = part.plan.sends.iter().map(|send| PlannedSend {
            reader: send.reader as usize,
            n_rows: send.rows.len(),
            rows: backend.upload_index(&send.rows),
            positions: backend.upload_index(&send.positions),
        });
        Self {
            boundary: backend.upload_index(boundary),
            boundary_keys: backend.upload_index(&boundary_ids),
            sends: sends.collect(),
            halo_ids: part.halo_blocks().iter().map(|block| block.column_ids.clone()).collect(),
            boundary_ids,
        }
    }

    /// Rows sent forward and rows sent backward in one exchange.
    pub(crate) fn n_rows_sent(&self) -> (usize, usize) {
        let forward = self.sends.iter().map(|send| send.n_rows).sum();
        (forward, self.halo_ids.iter().map(Vec::len).sum())
    }
}

/// One rank's end of the exchanges of a run.
pub(crate) struct Exchanger<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> {
    pub(crate) backend: &'a B,
    pub(crate) comm: &'a mut C,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) seed: u64,
    /// Buffers at rest: those received become those sent next.
    spare: Vec<B::Bytes>,
}

/// Which exchange, at which precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) epoch: u32,
    pub(crate) layer: usize,
    pub(crate) pass: Pass,
    pub(crate) purpose: Purpose,
    pub(crate) codec: RowCodec,
}

impl Call {
    fn tag(self) -> Tag {
        let Self { epoch, layer, pass, purpose, .. } = self;
        Tag { epoch, layer: layer as u16, pass, purpose }
    }

    fn draws(self, seed: u64) -> Coordinates {
        Coordinates::new(seed, Stream::Rounding).at(self.epoch, self.layer as u8, self.pass)
    }
}

/// An exchange in flight.
pub(crate) struct InFlight<P> {
    call: Call,
    n_cols: usize,
    pending: P,
}

impl<'a, B: Wire, C: Communicator<Buffer = B::Bytes>> Exchanger<'a, B, C> {
    pub(crate) fn new(backend: &'a B, comm: &'a mut C, clock: &'a dyn Clock, seed: u64) -> Self {
        Self { backend, comm, clock, seed, spare: Vec::new() }
    }

    fn buffer(&mut self) -> B::Bytes {
        self.spare.pop().unwrap_or_else(|| self.backend.bytes_from_host(Vec::new()))
    }

    fn outgoing(
        &self,
        call: Call,
        peer: usize,
        rows: (usize, usize),
        buffer: B::Bytes,
    ) -> Outgoing<B::Bytes> {
        let (n_rows, n_cols) = rows;
        let payload_bytes = call.codec.payload_bytes(n_rows, n_cols) as u64;
        let metadata_bytes = call.codec.metadata_bytes(n_rows) as u64;
        Outgoing { peer, buffer, payload_bytes, metadata_bytes }
    }

    fn encode_error(&self, call: Call, ids: &[u32], source: EncodeError) -> TrainError {
        let Call { epoch, layer, pass, .. } = call;
        let node = ids.get(source.row()).copied().unwrap_or(u32::MAX);
        TrainError::Encode { epoch, layer, pass, rank: self.comm.rank(), node, source }
    }

    fn start(
        &mut self,
        call: Call,
        n_cols: usize,
        sends: Vec<Outgoing<B::Bytes>>,
        recvs: &[Incoming],
    ) -> Result<InFlight<C::Pending>, TrainError> {
        let pending = self.comm.start(call.tag(), sends, recvs);
        let pending = pending.map_err(|source| TrainError::Comm { epoch: call.epoch, source })?;
        Ok(InFlight { call, n_cols, pending })
    }

    /// Encodes each boundary row once and sends every reader its rows.
    pub(crate) fn start_forward(
        &mut self,
        call: Call,
        plan: &ExchangePlan<B>,
        structure: &Structure<B>,
        own: &B::Matrix,
        times: &mut Stopwatch,
    ) -> Result<InFlight<C::Pending>, TrainError> {
        let n_cols = self.backend.shape(own).1;
        let start = self.clock.now();
        let mut sends = Vec::with_capacity(plan.sends.len());
        if !plan.sends.is_empty() {
            let staging = self.buffer();
            let draws = call.draws(self.seed).family();
            let (rows, keys) = (&plan.boundary, &plan.boundary_keys);
            let encoded = self.backend.encode_rows(call.codec, own, rows, keys, draws, staging);
            let encoded =
                encoded.map_err(|source| self.encode_error(call, &plan.boundary_ids, source))?;
            let shape = (plan.boundary_ids.len(), n_cols);
            for send in &plan.sends {
                let buffer = self.buffer();
                let positions = &send.positions;
                let selected =
                    self.backend.select_rows(call.codec, &encoded, shape, positions, buffer);
                let selected = selected.map_err(|source| {
                    let rank = self.comm.rank();
                    decode_error(call, rank, rank, source)
                })?;
                sends.push(self.outgoing(call, send.reader, (send.n_rows, n_cols), selected));
            }
            self.spare.push(encoded);
        }
        times.encode += self.clock.now().saturating_sub(start);
        let recvs: Vec<Incoming> = structure
            .halo
            .iter()
            .map(|block| Incoming {
                peer: block.owner as usize,
                bytes: call.codec.message_bytes(block.n_rows, n_cols),
            })
            .collect();
        self.start(call, n_cols, sends, &recvs)
    }

    /// Waits for halo rows; one matrix a block.
    pub(crate) fn finish_forward(
        &mut self,
        flight: InFlight<C::Pending>,
        structure: &Structure<B>,
        times: &mut Stopwatch,
    ) -> Result<Vec<B::Matrix>, TrainError> {
        let InFlight { call, n_cols, pending } = flight;
        let received = timed(self.clock, &mut times.wait, || self.comm.wait(pending));
        let received = received.map_err(|source| TrainError::Comm { epoch: call.epoch, source })?;
        let start = self.clock.now();
        let mut halo = Vec::with_capacity(received.len());
        for (block, message) in structure.halo.iter().zip(received) {
            let mut rows = self.backend.zeros(block.n_rows, n_cols);
            let decoded = self.backend.decode_rows(call.codec, &message.buffer, &mut rows);
            let rank = self.comm.rank();
            decoded.map_err(|source| decode_error(call, rank, message.peer, source))?;
            self.spare.push(message.buffer);
            halo.push(rows);
        }
        times.decode += self.clock.now().saturating_sub(start);
        Ok(halo)
    }

    /// Sends each owner the gradients of its rows.
    pub(crate) fn start_backward(
        &mut self,
        call: Call,
        plan: &ExchangePlan<B>,
        structure: &Structure<B>,
        (gradients, n_cols): (Vec<B::Matrix>, usize),
        times: &mut Stopwatch,
    ) -> Result<InFlight<C::Pending>, TrainError> {
        let start = self.clock.now();
        let draws = call.draws(self.seed).reader(self.comm.rank() as u16).family();
        let mut sends = Vec::with_capacity(gradients.len());
        for ((block, ids), rows) in structure.halo.iter().zip(&plan.halo_ids).zip(&gradients) {
            let buffer = self.buffer();
            let encoded =
                self.backend.encode_all_rows(call.codec, rows, &block.keys, draws, buffer);
            let encoded = encoded.map_err(|source| self.encode_error(call, ids, source))?;
            let shape = (block.n_rows, n_cols);
            sends.push(self.outgoing(call, block.owner as usize, shape, encoded));
        }
        times.encode += self.clock.now().saturating_sub(start);
        let recvs: Vec<Incoming> = plan
            .sends
            .iter()
            .map(|send| Incoming {
                peer: send.reader,
                bytes: call.codec.message_bytes(send.n_rows, n_cols),
            })
            .collect();
        self.start(call, n_cols, sends, &recvs)
    }

    /// Waits for gradients of own rows and adds them to `own`, readers ascending.
    pub(crate) fn finish_backward(
        &mut self,
        flight: InFlight<C::Pending>,
        plan: &ExchangePlan<B>,
        own: &mut B::Matrix,
        times: &mut Stopwatch,
    ) -> Result<(), TrainError> {
        let InFlight { call, pending, .. } = flight;
        let received = timed(self.clock, &mut times.wait, || self.comm.wait(pending));
        let received = received.map_err(|source| TrainError::Comm { epoch: call.epoch, source })?;
        let start = self.clock.now();
        for (send, message) in plan.sends.iter().zip(received) {
            let (rows, bytes) = (&send.rows, &message.buffer);
            let decoded = self.backend.decode_add_rows(call.codec, bytes, rows, own);
            let rank = self.comm.rank();
            decoded.map_err(|source| decode_error(call, rank, message.peer, source))?;
            self.spare.push(message.buffer);
        }
        times.decode += self.clock.now().saturating_sub(start);
        Ok(())
    }
}

fn decode_error(
    call: Call,
    rank: usize,
    peer: usize,
    source: sylvie_lowbit::DecodeError,
) -> TrainError {
    let Call { epoch, layer, pass, .. } = call;
    TrainError::Decode { epoch, layer, pass, rank, peer, source }
}
