//! Rows that leave a rank.

use sylvie_comm::{Communicator, Outgoing};
use sylvie_lowbit::EncodeError;
use sylvie_tensor::Wire;

use super::Call;
use super::decode::decode_error;
use super::exchange::Exchanger;
use crate::error::TrainError;
use crate::sample::Sample;
use crate::schedule::Parts;
use crate::stage::{ExchangePlan, Stage};

impl<B: Wire, C: Communicator<Buffer = B::Bytes>> Exchanger<'_, B, C> {
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

    /// Encodes each boundary row once, and gives every reader its rows. Where no draw rounds them, none is
    /// sampled and the backend would rather, each reader's are encoded for it: the same bytes, with a copy less.
    pub(super) fn encode_own(
        &mut self,
        call: Call,
        plan: &ExchangePlan<B>,
        sample: Option<&Sample<B>>,
        parts: Parts,
        own: &B::Matrix,
    ) -> Result<Vec<Outgoing<B::Bytes>>, TrainError> {
        let rank = self.comm.rank();
        if !parts.include(rank) || plan.sends.is_empty() {
            return Ok(Vec::new());
        }
        let is_drawn = sample.is_some() || call.codec.width.is_quantized();
        if !is_drawn && self.backend.encodes_for_each_reader() {
            return self.encode_for_each(call, plan, own);
        }
        let (rows, keys, ids) = match sample {
            None => (&plan.boundary, &plan.boundary_keys, &plan.boundary_ids),
            Some(sample) => (&sample.boundary, &sample.boundary_keys, &sample.boundary_ids),
        };
        let (backend, n_cols) = (self.backend, self.backend.shape(own).1);
        let staging = self.take_staging(call);
        let draws = call.rounding(self.seed, rank);
        let encoded = backend.encode_rows(call.codec, own, rows, keys, draws, staging);
        let encoded = encoded.map_err(|source| encode_error(call, rank, ids, source))?;
        let mut sends = Vec::with_capacity(plan.sends.len());
        for (at, send) in plan.sends.iter().enumerate() {
            let (n_rows, selected) = match sample {
                None => (send.host_positions.len(), &send.positions),
                Some(sample) => (sample.sends[at].n_rows, &sample.sends[at].selected),
            };
            if n_rows == 0 {
                continue;
            }
            let buffer = self.take_buffer(call, send.reader);
            let shape = (ids.len(), n_cols);
            let message = backend.select_rows(call.codec, &encoded, shape, selected, buffer);
            let message = message.map_err(|source| decode_error(call, rank, rank, source))?;
            sends.push(self.outgoing(call, send.reader, (n_rows, n_cols), message));
        }
        self.keep_staging(call, encoded);
        Ok(sends)
    }

    /// Encodes every reader's rows, at a width without draws.
    fn encode_for_each(
        &mut self,
        call: Call,
        plan: &ExchangePlan<B>,
        own: &B::Matrix,
    ) -> Result<Vec<Outgoing<B::Bytes>>, TrainError> {
        let (rank, n_cols) = (self.comm.rank(), self.backend.shape(own).1);
        let draws = call.rounding(self.seed, rank);
        let mut sends = Vec::with_capacity(plan.sends.len());
        for send in plan.sends.iter().filter(|send| !send.host_positions.is_empty()) {
            let buffer = self.take_buffer(call, send.reader);
            // Keys are of draws, of which there are none: any will do.
            let (rows, keys) = (&send.rows, &send.rows);
            let encoded = self.backend.encode_rows(call.codec, own, rows, keys, draws, buffer);
            let message = encoded.map_err(|source| {
                let positions = send.host_positions.iter();
                let ids: Vec<u32> = positions.map(|&at| plan.boundary_ids[at as usize]).collect();
                encode_error(call, rank, &ids, source)
            })?;
            let shape = (send.host_positions.len(), n_cols);
            sends.push(self.outgoing(call, send.reader, shape, message));
        }
        Ok(sends)
    }

    /// Encodes the gradients of halo rows, each block for its owner.
    pub(super) fn encode_gradients(
        &mut self,
        call: Call,
        stage: &Stage<B>,
        sample: Option<&Sample<B>>,
        gradients: &[(usize, B::Matrix)],
    ) -> Result<Vec<Outgoing<B::Bytes>>, TrainError> {
        let (backend, rank) = (self.backend, self.comm.rank());
        let draws = call.rounding(self.seed, rank);
        let mut sends = Vec::with_capacity(gradients.len());
        for (block, rows) in gradients {
            let planned = &stage.plan.halo[*block];
            let (owner, n_cols) = (planned.owner, backend.shape(rows).1);
            let kept = sample.map(|sample| &sample.halo[*block]);
            if kept.map_or(planned.ids.len(), |kept| kept.n_rows) == 0 {
                continue;
            }
            let buffer = self.take_buffer(call, owner);
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
            let encoded = encoded.map_err(|source| encode_error(call, rank, ids, source))?;
            sends.push(self.outgoing(call, owner, (n_rows, n_cols), encoded));
        }
        Ok(sends)
    }
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
