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
    let failed = |source: CommError| TrainError::SetUp { source };
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
        Features::Dense(matrix) => float_bytes(matrix.values()),
        Features::Sparse(matrix) => {
            let offsets: Vec<u64> = matrix.indptr().iter().map(|offset| offset.to_le()).collect();
            let columns: Vec<u32> = matrix.indices().iter().map(|column| column.to_le()).collect();
            let mut bytes: Vec<u8> = bytemuck::cast_slice(&offsets).to_vec();
            bytes.extend_from_slice(bytemuck::cast_slice(&columns));
            bytes.extend(float_bytes(matrix.values()));
            bytes
        }
    }
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    let words: Vec<u32> = values.iter().map(|value| value.to_bits().to_le()).collect();
    bytemuck::cast_slice(&words).to_vec()
}

/// Words of 4 bytes; `None` if the bytes are not whole words.
fn words(bytes: &[u8]) -> Option<Vec<u32>> {
    let is_whole = bytes.len().is_multiple_of(4);
    is_whole.then(|| bytemuck::pod_collect_to_vec(bytes))
}

fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(u32::from_le(*word))).collect()
}

/// `n_rows` rows of the same kind and width as `own`; `None` if the bytes are not that.
fn from_bytes(own: &Features, n_rows: usize, bytes: &[u8]) -> Option<Features> {
    let n_cols = own.n_cols();
    match own {
        Features::Dense(_) => {
            let values = floats(&words(bytes)?);
            DenseMatrix::new(n_rows, n_cols, values).ok().map(Features::Dense)
        }
        Features::Sparse(_) => {
            let (offsets, rest) = bytes.split_at_checked((n_rows + 1) * 8)?;
            let offsets: Vec<u64> = bytemuck::pod_collect_to_vec(offsets);
            let indptr: Vec<u64> = offsets.iter().map(|offset| u64::from_le(*offset)).collect();
            let words = words(rest)?;
            let (columns, values) = words.split_at_checked(words.len() / 2)?;
            let indices: Vec<u32> = columns.iter().map(|column| u32::from_le(*column)).collect();
            let matrix = SparseMatrix::new(n_cols, &indptr, &indices, &floats(values));
            matrix.ok().map(Features::Sparse)
        }
    }
}
