//! Rows that come to a rank.

use std::sync::Arc;

use sylvie_comm::{Communicator, Received};
use sylvie_gnn::Input;
use sylvie_lowbit::DecodeError;
use sylvie_tensor::Wire;

use super::Call;
use super::exchange::Exchanger;
use crate::error::TrainError;
use crate::sample::Sample;
use crate::schedule::Parts;
use crate::stage::{ExchangePlan, Stage};

impl<B: Wire, C: Communicator<Buffer = B::Bytes>> Exchanger<'_, B, C> {
    /// The halo rows of each block that came.
    pub(super) fn decode_halo(
        &mut self,
        call: Call,
        n_cols: usize,
        stage: &Stage<B>,
        sample: Option<&Sample<B>>,
        messages: impl Iterator<Item = (usize, Received<B::Bytes>)>,
    ) -> Result<Vec<(usize, Input<B>)>, TrainError> {
        let (backend, rank) = (self.backend, self.comm.rank());
        let is_packed = self.halo.packs(backend, call.codec.width, n_cols);
        let mut blocks = Vec::new();
        for (block, Received { peer, buffer }) in messages {
            let n_rows = stage.plan.halo[block].ids.len();
            let rows = match sample {
                None if is_packed => {
                    let rows = backend.packed_rows(call.codec, &buffer, (n_rows, n_cols));
                    rows.map(|rows| Input::Packed(Arc::new(rows)))
                }
                None => {
                    let mut rows = backend.matrix_to_assign(n_rows, n_cols);
                    let decoded = backend.decode_rows(call.codec, &buffer, &mut rows);
                    decoded.map(|()| Input::dense(rows))
                }
                Some(sample) => {
                    let mut rows = backend.zeros(n_rows, n_cols);
                    let places = &sample.halo[block].rows;
                    let decoded = backend.decode_add_rows(call.codec, &buffer, places, &mut rows);
                    decoded.map(|()| Input::dense(rows))
                }
            };
            let rows = rows.map_err(|source| decode_error(call, rank, peer, source))?;
            self.keep_buffer(call, peer, buffer);
            blocks.push((block, rows));
        }
        Ok(blocks)
    }

    /// Adds zeros for the blocks of which the sample has no row: they did not come.
    pub(super) fn add_silent(
        &self,
        n_cols: usize,
        plan: &ExchangePlan<B>,
        parts: Parts,
        blocks: &mut Vec<(usize, Input<B>)>,
    ) {
        let n_meant = plan.halo.iter().filter(|block| parts.include(block.owner)).count();
        if blocks.len() == n_meant {
            return;
        }
        for (number, block) in plan.halo.iter().enumerate() {
            let is_there = blocks.iter().any(|(other, _)| *other == number);
            if parts.include(block.owner) && !is_there {
                blocks.push((number, Input::dense(self.backend.zeros(block.ids.len(), n_cols))));
            }
        }
        blocks.sort_by_key(|(number, _)| *number);
    }

    /// The gradients of boundary rows, added up over the readers in ascending order.
    pub(super) fn decode_gradients(
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
            self.keep_buffer(call, peer, buffer);
        }
        Ok(sums)
    }
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
