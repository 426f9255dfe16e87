//! What a caller of [`start`](crate::Communicator::start) owes every transport.

use crate::{Incoming, MessageLength, Outgoing};

/// # Panics
/// If a peer is the own rank, no rank at all, or named twice in a list, or if a buffer is not as long
/// as its payload and metadata together.
pub(crate) fn assert_start<B: MessageLength>(
    (rank, size): (usize, usize),
    sends: &[Outgoing<B>],
    recvs: &[Incoming],
) {
    assert_peers((rank, size), "a send", sends.iter().map(|send| send.peer));
    assert_peers((rank, size), "a receive", recvs.iter().map(|recv| recv.peer));
    for send in sends {
        let (found, said) =
            (send.buffer.n_bytes() as u64, send.payload_bytes + send.metadata_bytes);
        assert!(found == said, "a buffer of {found} bytes is counted as {said} bytes");
    }
}

fn assert_peers((rank, size): (usize, usize), what: &str, peers: impl Iterator<Item = usize>) {
    let mut seen = vec![false; size];
    for peer in peers {
        assert!(peer < size, "{what} names rank {peer} of {size} ranks");
        assert!(peer != rank, "{what} names its own rank {peer}");
        assert!(!seen[peer], "{what} names rank {peer} twice");
        seen[peer] = true;
    }
}
