//! The traces of all ranks, brought together on rank 0.

use anyhow::Result;
use sylvie::comm::{Communicator as _, Incoming, Mpi, Outgoing, Purpose, Tag};
use sylvie::random::Pass;

/// Brings what every rank has to rank 0, in rank order; the others get nothing.
///
/// # Errors
/// A failing transport.
pub(super) fn gather(comm: &mut Mpi, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let lengths = comm.all_gather(&(own.len() as u64).to_le_bytes())?;
    let lengths: Vec<_> = lengths
        .iter()
        .map(|bytes| u64::from_le_bytes(bytes[..].try_into().unwrap_or_default()) as usize)
        .collect();
    let tag = Tag { epoch: 0, layer: 0, pass: Pass::Forward, purpose: Purpose::Setup };
    let is_said = |peer: &usize| lengths[*peer] > 0;
    let mut all = vec![Vec::new(); comm.size()];
    if comm.rank() == 0 {
        let recvs: Vec<_> = (1..comm.size())
            .filter(is_said)
            .map(|peer| Incoming { peer, bytes: lengths[peer] })
            .collect();
        let pending = comm.start(tag, Vec::new(), &recvs)?;
        for received in comm.wait(pending)? {
            all[received.peer] = received.buffer;
        }
        all[0] = own;
    } else {
        let payload_bytes = own.len() as u64;
        let send = Outgoing { peer: 0, buffer: own, payload_bytes, metadata_bytes: 0 };
        let sends = if payload_bytes > 0 { vec![send] } else { Vec::new() };
        let pending = comm.start(tag, sends, &[])?;
        comm.wait(pending)?;
    }
    Ok(all)
}
