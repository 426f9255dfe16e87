//! What comes from one peer on one lane, in the order in which it was sent.

use std::collections::VecDeque;

use mpi::Tag as MpiTag;
use mpi::datatype::Equivalence as _;
use mpi::point_to_point::Message;
use mpi::topology::{Communicator as _, SimpleCommunicator};
use mpi::traits::Source as _;

use super::in_flight::Arriving;
use super::round::Expected;
use super::spare::Spare;
use super::stamp::Stamp;
use crate::CommError;

/// A message that this rank's plan says comes next, and where it belongs.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) round: u64,
    pub(super) slot: usize,
    pub(super) expected: Expected,
}

/// Whether this rank still works, or only reads what the others have left to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Working,
    Leaving,
}

/// How messages are found.
pub(super) struct Post<'a> {
    pub(super) world: &'a SimpleCommunicator,
    pub(super) tag: MpiTag,
    pub(super) piece_bytes: usize,
    pub(super) mood: Mood,
}

#[derive(Default)]
pub(super) struct Mailbox {
    peer: usize,
    due: VecDeque<Due>,
    /// Messages that MPI is delivering; only the last one may have pieces to come.
    arriving: VecDeque<(Arriving, Pieces)>,
    has_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pieces {
    MoreToCome,
    AllHere,
}

impl Mailbox {
    pub(super) fn new(peer: usize) -> Self {
        Self { peer, ..Self::default() }
    }

    pub(super) fn expect(&mut self, due: Due) {
        self.due.push_back(due);
    }

    /// Whether something is to come.
    pub(super) fn is_awaiting(&self, mood: Mood) -> bool {
        !self.due.is_empty() || (mood == Mood::Leaving && !self.has_left)
    }

    /// Takes what is there, without blocking: each message goes to `deliver` with what was due.
    /// Returns whether anything was there.
    ///
    /// Nothing is taken that is not due: it would have no place to go, and stays with MPI.
    pub(super) fn look(
        &mut self,
        post: &Post<'_>,
        spare: &mut Spare,
        mut deliver: impl FnMut(Due, Vec<u8>),
    ) -> Result<bool, CommError> {
        let mut has_moved = false;
        loop {
            let mut is_still = !self.match_next(post, spare);
            while let Some(message) = self.take_whole() {
                is_still = false;
                if let Some((due, message)) = self.open(message, post.mood)? {
                    deliver(due, message);
                }
            }
            if is_still {
                return Ok(has_moved);
            }
            has_moved = true;
        }
    }

    /// Finds the next message, or piece of one, that has been announced, and lets MPI deliver it.
    ///
    /// A message is matched before it is received: its length is known then, whatever the plan says,
    /// and one that is too long ends in an error and not in MPI's own death.
    fn match_next(&mut self, post: &Post<'_>, spare: &mut Spare) -> bool {
        let n_arriving = self.arriving.len();
        let last = self.arriving.back_mut();
        let open = last.filter(|(_, pieces)| *pieces == Pieces::MoreToCome);
        if let Some((message, pieces)) = open {
            if !message.can_take(post.piece_bytes) {
                return false;
            }
            let Some((piece, n_bytes)) = probe(self.peer, post) else { return false };
            message.receive(piece, n_bytes);
            *pieces = pieces_after(n_bytes, post);
            return true;
        }
        let is_wanted = n_arriving < self.due.len()
            || (post.mood == Mood::Leaving && !self.has_left && n_arriving == self.due.len());
        if !is_wanted {
            return false;
        }
        let Some((piece, n_bytes)) = probe(self.peer, post) else { return false };
        let planned = self.due.get(n_arriving).map_or(0, |due| due.expected.n_bytes_stamped());
        // As many bytes as are there, or as the plan says if that promises further pieces.
        let room = if n_bytes < post.piece_bytes { n_bytes } else { n_bytes.max(planned) };
        let mut message = Arriving::into_buffer(spare.take(room), room);
        message.receive(piece, n_bytes);
        self.arriving.push_back((message, pieces_after(n_bytes, post)));
        true
    }

    /// The oldest message, once all of it is there.
    fn take_whole(&mut self) -> Option<Vec<u8>> {
        let (message, pieces) = self.arriving.front_mut()?;
        if *pieces == Pieces::MoreToCome {
            return None;
        }
        let message = message.finish()?;
        self.arriving.pop_front();
        Some(message)
    }

    /// Checks a message and finds what it was due for; nothing, if nobody waits for it any more.
    fn open(
        &mut self,
        mut message: Vec<u8>,
        mood: Mood,
    ) -> Result<Option<(Due, Vec<u8>)>, CommError> {
        let peer = self.peer;
        let stamp = Stamp::cut(&mut message).ok_or(CommError::Unreadable { peer })?;
        if mood == Mood::Leaving && stamp == Stamp::Goodbye {
            self.has_left = true;
            self.due.clear();
            return Ok(None);
        }
        let Some(due) = self.due.pop_front() else { return Ok(None) };
        due.expected.accept(peer, stamp, message.len())?;
        Ok(Some((due, message)))
    }
}

/// The next announced message of a peer and its length.
fn probe(peer: usize, post: &Post<'_>) -> Option<(Message, usize)> {
    let process = post.world.process_at_rank(peer as i32);
    let (message, status) = process.immediate_matched_probe_with_tag(post.tag)?;
    let n_bytes = status.count(u8::equivalent_datatype());
    Some((message, usize::try_from(n_bytes).expect("MPI counts no fewer than 0 bytes")))
}

fn pieces_after(n_bytes: usize, post: &Post<'_>) -> Pieces {
    if n_bytes < post.piece_bytes { Pieces::AllHere } else { Pieces::MoreToCome }
}
