//! Buffers that MPI reads or writes, kept until it is done with them.
//!
//! The only unsafe code of this transport: a request borrows its buffer for as long as the program
//! runs, as far as the compiler knows. Here each request lies beside its buffer, which is neither
//! touched nor freed before the request is done. A request that is given up leaves its buffer to MPI
//! for good.
#![allow(
    unsafe_code,
    reason = "a buffer in flight is borrowed for longer than the compiler can see"
)]

use std::mem::{forget, take};
use std::slice;

use mpi::Tag as Lane;
use mpi::point_to_point::Message;
use mpi::request::{Request, StaticScope};
use mpi::topology::Process;
use mpi::traits::Destination as _;

/// A request, or none once it is done.
///
/// The binding panics when it drops an unfinished one; this forgets it, because whoever gives up
/// requests is about to end the process.
struct Piece(Option<Request<'static, [u8], StaticScope>>);

impl Piece {
    /// Asks MPI, which makes progress meanwhile.
    fn is_done(&mut self) -> bool {
        let Some(request) = self.0.take() else { return true };
        self.0 = request.test().err();
        self.0.is_none()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            forget(request);
        }
    }
}

/// A message on its way to a peer.
pub(super) struct Sending {
    buffer: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Sending {
    /// Hands `buffer` to MPI in pieces of `piece_bytes`; the last one is shorter, empty if need be,
    /// which tells the receiver that it is the last.
    pub(super) fn start(
        peer: Process<'_>,
        lane: Lane,
        buffer: Vec<u8>,
        piece_bytes: usize,
    ) -> Self {
        // SAFETY: the bytes lie in a block that `buffer` owns, which moves into `Self`. It is given
        // back, and may change or be freed, once all pieces are done, and is leaked if they never are.
        let bytes: &'static [u8] = unsafe { slice::from_raw_parts(buffer.as_ptr(), buffer.len()) };
        let send = |piece| Piece(Some(peer.immediate_send_with_tag(StaticScope, piece, lane)));
        let whole = bytes.chunks_exact(piece_bytes);
        let last = whole.remainder();
        let pieces = whole.chain([last]).map(send).collect();
        Self { buffer, pieces }
    }

    /// The buffer, once MPI is done with it.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        self.pieces.retain_mut(|piece| !piece.is_done());
        self.pieces.is_empty().then(|| take(&mut self.buffer))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.pieces.is_empty() {
            forget(take(&mut self.buffer));
        }
    }
}

/// A message of which a piece has come at least.
pub(super) struct Arriving {
    buffer: Vec<u8>,
    n_filled: usize,
    piece: Piece,
}

impl Arriving {
    /// A message of which nothing has come yet; `buffer` may hold anything.
    pub(super) fn into_buffer(buffer: Vec<u8>) -> Self {
        Self { buffer, n_filled: 0, piece: Piece(None) }
    }

    /// Lets MPI write the next piece, of `n_bytes`, behind those that have come.
    ///
    /// # Panics
    /// If the piece before is not done.
    pub(super) fn receive(&mut self, piece: Message, n_bytes: usize) {
        assert!(self.piece.is_done(), "a piece is received after the one before it");
        let start = self.n_filled;
        self.n_filled += n_bytes;
        if self.buffer.len() < self.n_filled {
            self.buffer.reserve_exact(self.n_filled - self.buffer.len());
            self.buffer.resize(self.n_filled, 0);
        }
        let bytes = &mut self.buffer[start..self.n_filled];
        // SAFETY: the bytes lie in a block that `buffer` owns. Until the piece is done nobody reads or
        // changes them, nor frees the block: this function and `finish` insist that it is, and if it
        // never is, the block is leaked.
        let bytes: &'static mut [u8] =
            unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len()) };
        self.piece = Piece(Some(piece.immediate_matched_receive_into(StaticScope, bytes)));
    }

    /// Whether the last piece is done.
    pub(super) fn is_done(&mut self) -> bool {
        self.piece.is_done()
    }

    /// The message, if the last piece is done.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        if !self.is_done() {
            return None;
        }
        self.buffer.truncate(self.n_filled);
        Some(take(&mut self.buffer))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if self.piece.0.is_some() {
            forget(take(&mut self.buffer));
        }
    }
}
