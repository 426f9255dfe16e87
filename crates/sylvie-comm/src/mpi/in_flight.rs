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

use std::collections::VecDeque;
use std::mem::{forget, take};
use std::slice;

use mpi::Tag;
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

/// Requests in the order in which they were made.
#[derive(Default)]
struct Pieces(VecDeque<Piece>);

impl Pieces {
    fn add(&mut self, request: Request<'static, [u8], StaticScope>) {
        self.0.push_back(Piece(Some(request)));
    }

    /// How many are not done. Asks for the first of them only, since the others hardly overtake it.
    fn n_left(&mut self) -> usize {
        while self.0.front_mut().is_some_and(Piece::is_done) {
            self.0.pop_front();
        }
        self.0.len()
    }
}

/// Where a message goes, and in pieces of which length.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) peer: Process<'a>,
    pub(super) tag: Tag,
    pub(super) piece_bytes: usize,
}

/// Bytes after which the receiver must have found a piece before many more are sent.
///
/// MPI copies short pieces, without limit, where they cannot leave or are not expected yet.
const ASK_BYTES: usize = 2 << 20;
/// Such pieces that may be under way.
const N_ASKED: usize = 2;

/// A message on its way to a peer, in pieces of one length; the last one is shorter, empty if need be,
/// which tells the receiver that it is the last.
pub(super) struct Sending {
    buffer: Vec<u8>,
    n_handed: usize,
    is_all_handed: bool,
    pieces: Pieces,
    asked: Pieces,
}

impl Sending {
    pub(super) fn new(buffer: Vec<u8>) -> Self {
        let (pieces, asked) = (Pieces::default(), Pieces::default());
        Self { buffer, n_handed: 0, is_all_handed: false, pieces, asked }
    }

    /// Whether MPI has got all of it, so that the next message to this peer may follow.
    pub(super) fn is_all_handed(&self) -> bool {
        self.is_all_handed
    }

    /// Hands as much to MPI as may be under way; whether that was anything.
    pub(super) fn advance(&mut self, route: Route<'_>) -> bool {
        let mut has_moved = false;
        let Route { peer, tag, piece_bytes } = route;
        let ask_bytes = piece_bytes * (ASK_BYTES / piece_bytes).max(1);
        // SAFETY: the bytes lie in a block that `buffer` owns. It is given back, and may change or be
        // freed, once all pieces are done, and is leaked if they never are.
        let bytes: &'static [u8] =
            unsafe { slice::from_raw_parts(self.buffer.as_ptr(), self.buffer.len()) };
        while !self.is_all_handed && self.asked.n_left() < N_ASKED {
            has_moved = true;
            let rest = &bytes[self.n_handed..];
            let piece = &rest[..rest.len().min(piece_bytes)];
            self.n_handed += piece.len();
            self.is_all_handed = piece.len() < piece_bytes;
            if !self.is_all_handed && self.n_handed.is_multiple_of(ask_bytes) {
                let asked = peer.immediate_synchronous_send_with_tag(StaticScope, piece, tag);
                self.asked.add(asked);
            } else {
                self.pieces.add(peer.immediate_send_with_tag(StaticScope, piece, tag));
            }
        }
        has_moved
    }

    /// The buffer, once MPI is done with it.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        // Both are asked, for either may let MPI move bytes.
        let n_left = self.pieces.n_left() + self.asked.n_left();
        (self.is_all_handed && n_left == 0).then(|| take(&mut self.buffer))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !(self.pieces.0.is_empty() && self.asked.0.is_empty()) {
            forget(take(&mut self.buffer));
        }
    }
}

/// A message of which a piece has been announced at least.
pub(super) struct Arriving {
    buffer: Vec<u8>,
    n_filled: usize,
    pieces: Pieces,
}

impl Arriving {
    /// A message for which there is room for `n_bytes`; `buffer` may hold anything.
    pub(super) fn into_buffer(mut buffer: Vec<u8>, n_bytes: usize) -> Self {
        grow(&mut buffer, n_bytes);
        Self { buffer, n_filled: 0, pieces: Pieces::default() }
    }

    /// Whether a piece of `n_bytes` may be received now: the buffer cannot grow while MPI writes to it.
    pub(super) fn can_take(&mut self, n_bytes: usize) -> bool {
        self.buffer.len() - self.n_filled >= n_bytes || self.pieces.n_left() == 0
    }

    /// Lets MPI write the next piece, of `n_bytes`, behind those before it.
    ///
    /// # Panics
    /// If there is no room for it while MPI still writes those.
    pub(super) fn receive(&mut self, piece: Message, n_bytes: usize) {
        assert!(self.can_take(n_bytes), "a piece of {n_bytes} bytes has no room yet");
        let start = self.n_filled;
        self.n_filled += n_bytes;
        if self.buffer.len() < self.n_filled {
            grow(&mut self.buffer, self.n_filled);
        }
        // SAFETY: the range lies within the buffer's length, which only changes above, in `grow`.
        let first = unsafe { self.buffer.as_mut_ptr().add(start) };
        // SAFETY: no two pieces overlap. Until all are done nobody else reads or changes these bytes, nor
        // frees or moves the block: growing and `finish` insist that they are, and if they never are, the
        // block is leaked.
        let bytes: &'static mut [u8] = unsafe { slice::from_raw_parts_mut(first, n_bytes) };
        self.pieces.add(piece.immediate_matched_receive_into(StaticScope, bytes));
    }

    /// The message, once all pieces announced so far are done.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        if self.pieces.n_left() > 0 {
            return None;
        }
        self.buffer.truncate(self.n_filled);
        Some(take(&mut self.buffer))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.pieces.0.is_empty() {
            forget(take(&mut self.buffer));
        }
    }
}

/// Makes a buffer at least so long, and not much longer.
fn grow(buffer: &mut Vec<u8>, n_bytes: usize) {
    if buffer.len() < n_bytes {
        buffer.reserve_exact(n_bytes - buffer.len());
        buffer.resize(n_bytes, 0);
    }
}
