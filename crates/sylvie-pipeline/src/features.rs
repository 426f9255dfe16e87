//! The one exchange of raw halo features, in full precision.

use sylvie_comm::{CommError, Communicator, Incoming, Outgoing, Purpose, Tag};
use sylvie_graph::{DenseMatrix, Features, PartGraph, SparseMatrix};
use sylvie_random::Pass;
use sylvie_tensor::Wire;

use crate::error::TrainError;

/// Sends the features of boundary rows to their readers, and returns those of the halo rows, a block
/// an entry.
///
/// `round` tells apart several such exchanges of a run.
pub(crate) fn exchange_features<B: Wire, C: Communicator<Buffer = B::Bytes>>(
    backend: &B,
    comm: &mut C,
    part: &PartGraph,
    own: &Features,
    round: u16,
) -> Result<Vec<Features>, TrainError> {
    let failed = |source: CommError| TrainError::Comm { epoch: 0, source };
    let mut messages: Vec<Vec<u8>> =
        part.plan.sends.iter().map(|send| to_bytes(&own.gather_rows(&send.rows))).collect();
    // Sparse rows have no length that a plan could tell, so every rank says what it sends.
    let mut lengths = vec![0_u64; comm.size()];
    for (send, message) in part.plan.sends.iter().zip(&messages) {
        lengths[send.reader as usize] = message.len() as u64;
    }
    let table: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
    let tables = comm.all_gather(&table).map_err(failed)?;

    let sends = part.plan.sends.iter().zip(messages.drain(..)).map(|(send, message)| Outgoing {
        peer: send.reader as usize,
        payload_bytes: message.len() as u64,
        metadata_bytes: 0,
        buffer: backend.bytes_from_host(message),
    });
    let damaged = |rank: usize, peer: usize| TrainError::Damaged { rank, peer, what: "features" };
    let rank = comm.rank();
    let mut recvs = Vec::new();
    for block in part.halo_blocks() {
        let peer = block.owner as usize;
        let entry = tables[peer].get(rank * 8..).and_then(|rest| rest.first_chunk::<8>());
        let length = entry.and_then(|bytes| usize::try_from(u64::from_le_bytes(*bytes)).ok());
        recvs.push(Incoming { peer, bytes: length.ok_or_else(|| damaged(rank, peer))? });
    }
    let tag = Tag { epoch: 0, layer: round, pass: Pass::Forward, purpose: Purpose::Setup };
    let pending = comm.start(tag, sends.collect(), &recvs).map_err(failed)?;
    let mut halo = Vec::new();
    for (block, message) in part.halo_blocks().iter().zip(comm.wait(pending).map_err(failed)?) {
        let bytes = backend.bytes_to_host(message.buffer);
        let features = from_bytes(own, block.column_ids.len(), &bytes);
        halo.push(features.ok_or_else(|| damaged(rank, message.peer))?);
    }
    Ok(halo)
}

/// Dense: the values. Sparse: offsets as u64, then columns as u32, then values; all little-endian.
fn to_bytes(features: &Features) -> Vec<u8> {
    match features {
        Features::Dense(matrix) => matrix.values().iter().flat_map(|v| v.to_le_bytes()).collect(),
        Features::Sparse(matrix) => {
            let mut bytes: Vec<u8> =
                matrix.indptr().iter().flat_map(|offset| offset.to_le_bytes()).collect();
            bytes.extend(matrix.indices().iter().flat_map(|column| column.to_le_bytes()));
            bytes.extend(matrix.values().iter().flat_map(|value| value.to_le_bytes()));
            bytes
        }
    }
}

/// `n_rows` rows of the same kind and width as `own`; `None` if the bytes are not that.
fn from_bytes(own: &Features, n_rows: usize, bytes: &[u8]) -> Option<Features> {
    let n_cols = own.n_cols();
    match own {
        Features::Dense(_) => {
            let (values, []) = bytes.as_chunks::<4>() else {
                return None;
            };
            let values = values.iter().map(|v| f32::from_le_bytes(*v)).collect();
            DenseMatrix::new(n_rows, n_cols, values).ok().map(Features::Dense)
        }
        Features::Sparse(_) => {
            let (offsets, rest) = bytes.split_at_checked((n_rows + 1) * 8)?;
            let (offsets, _) = offsets.as_chunks::<8>();
            let indptr: Vec<u64> = offsets.iter().map(|o| u64::from_le_bytes(*o)).collect();
            let (words, []) = rest.as_chunks::<4>() else {
                return None;
            };
            let (indices, values) = words.split_at_checked(words.len() / 2)?;
            let indices: Vec<u32> = indices.iter().map(|c| u32::from_le_bytes(*c)).collect();
            let values: Vec<f32> = values.iter().map(|v| f32::from_le_bytes(*v)).collect();
            SparseMatrix::new(n_cols, &indptr, &indices, &values).ok().map(Features::Sparse)
        }
    }
}
