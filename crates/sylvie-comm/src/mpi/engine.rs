//! The one thread that calls MPI.
//!
//! MPI moves bytes only while somebody is in a call. Here somebody always is, as long as anything is
//! under way: this thread looks, sleeps a little ([`Pace`]) and looks again, while the ranks compute.
//! With nothing under way it sleeps until it is told something.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use mpi::Tag as MpiTag;
use mpi::topology::{Communicator as _, SimpleCommunicator};

use super::in_flight::Route;
use super::mailbox::{Due, Mailbox, Mood, Post};
use super::outbox::Outbox;
use super::pace::Pace;
use super::round::{Lane, Parcel, Round, Sent, Tray};
use super::spare::Spare;
use super::stamp::Stamp;
use crate::CommError;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Command {
    Begin(Round),
    /// Says goodbye to every peer, and answers when all have said it and all has been sent.
    Leave(Sender<()>),
    /// Ends the job with this exit status.
    Abort(i32),
}

/// How the thread's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every rank has left: MPI may be finalised.
    Left,
    /// Nobody can tell the thread anything any more.
    Deserted,
}

/// The error that ended a rank's communication, seen by both of its threads.
pub(super) type Failure = Arc<OnceLock<CommError>>;

/// Buffers kept for each peer and direction: those of a few exchanges in flight.
const N_SPARE_PER_PEER: usize = 4;

pub(super) struct Engine {
    world: SimpleCommunicator,
    rank: usize,
    piece_bytes: usize,
    commands: Receiver<Command>,
    failure: Failure,
    /// For each lane, one a peer; the rank's own stays empty. The mailboxes likewise.
    outboxes: [Vec<Outbox>; 2],
    mailboxes: [Vec<Mailbox>; 2],
    n_begun: u64,
    trays: HashMap<u64, Tray>,
    spare: Spare,
    mood: Mood,
    left: Option<Sender<()>>,
    pace: Pace,
}

impl Engine {
    pub(super) fn new(
        world: SimpleCommunicator,
        piece_bytes: usize,
        commands: Receiver<Command>,
        failure: Failure,
    ) -> Self {
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let mailboxes = Lane::ALL.map(|_| (0..size).map(Mailbox::new).collect());
        Self {
            world,
            rank,
            piece_bytes,
            commands,
            failure,
            outboxes: Lane::ALL.map(|_| (0..size).map(|_| Outbox::default()).collect()),
            mailboxes,
            n_begun: 0,
            trays: HashMap::new(),
            spare: Spare::new(N_SPARE_PER_PEER * size),
            mood: Mood::Working,
            left: None,
            pace: Pace::new(),
        }
    }

    /// Serves until every rank has left.
    pub(super) fn serve(mut self) -> Ended {
        loop {
            let command = if self.is_idle() {
                self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.commands.recv_timeout(self.pace.pause())
            };
            match command {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ended::Deserted,
            }
            if self.failure.get().is_some() {
                // Whoever waits sees its end of the channel closed, and then the failure.
                self.trays.clear();
                self.left = None;
                continue;
            }
            match self.progress() {
                Ok(true) => self.pace.quicken(),
                Ok(false) => {}
                Err(error) => self.fail(error),
            }
            if self.has_left() {
                // Whoever waited for this may have given up.
                self.left.take().map(|left| left.send(()));
                return Ended::Left;
            }
        }
    }

    fn fail(&mut self, error: CommError) {
        // The first error is final; this thread is the only one that sets it.
        let _ = self.failure.set(error);
        self.trays.clear();
    }

    fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank, self.mailboxes[0].len());
        (0..size).filter(move |&peer| peer != rank)
    }

    fn is_awaiting(&self) -> bool {
        let mut peers = self.peers();
        peers.any(|peer| self.mailboxes.iter().any(|lane| lane[peer].is_awaiting(self.mood)))
    }

    fn is_sending(&self) -> bool {
        self.outboxes.iter().flatten().any(|outbox| !outbox.is_empty())
    }

    fn is_idle(&self) -> bool {
        self.failure.get().is_some() || (!self.is_sending() && !self.is_awaiting())
    }

    fn has_left(&self) -> bool {
        self.mood == Mood::Leaving && !self.is_sending() && !self.is_awaiting()
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Begin(round) => self.begin(round),
            Command::Leave(left) => {
                self.mood = Mood::Leaving;
                self.left = Some(left);
                for peer in self.peers() {
                    for lane in Lane::ALL {
                        let goodbye = Parcel::new(peer, Vec::new(), Stamp::Goodbye);
                        self.send(lane, goodbye, Sent::Freed);
                    }
                }
            }
            Command::Abort(status) => self.world.abort(status),
        }
        self.pace.quicken();
    }

    fn begin(&mut self, round: Round) {
        let Round { lane, parcels, sent, owed, tray } = round;
        for parcel in parcels {
            self.send(lane, parcel, sent);
        }
        let number = self.n_begun;
        self.n_begun += 1;
        for (slot, (peer, expected)) in owed.into_iter().enumerate() {
            let due = Due { round: number, slot, expected };
            self.mailboxes[lane as usize][peer].expect(due);
        }
        if let Some(tray) = tray.deliver() {
            self.trays.insert(number, tray);
        }
    }

    fn send(&mut self, lane: Lane, parcel: Parcel, sent: Sent) {
        self.outboxes[lane as usize][parcel.peer].push(parcel.message, sent);
    }

    /// Looks at everything under way once; whether anything moved.
    fn progress(&mut self) -> Result<bool, CommError> {
        let (world, piece_bytes, spare) = (&self.world, self.piece_bytes, &mut self.spare);
        let mut has_moved = false;
        for (lane, outboxes) in Lane::ALL.into_iter().zip(&mut self.outboxes) {
            for (peer, outbox) in outboxes.iter_mut().enumerate() {
                if !outbox.is_empty() {
                    let peer = world.process_at_rank(peer as i32);
                    let route = Route { peer, tag: tag(lane), piece_bytes };
                    has_moved |= outbox.advance(route, spare);
                }
            }
        }
        let (trays, mood) = (&mut self.trays, self.mood);
        for (lane, mailboxes) in Lane::ALL.into_iter().zip(&mut self.mailboxes) {
            let post = Post { world, tag: tag(lane), piece_bytes, mood };
            for mailbox in mailboxes.iter_mut().filter(|mailbox| mailbox.is_awaiting(mood)) {
                has_moved |= mailbox.look(&post, spare, |due, message| {
                    if let Some(mut tray) = trays.remove(&due.round) {
                        tray.fill(due.slot, message);
                        if let Some(tray) = tray.deliver() {
                            trays.insert(due.round, tray);
                        }
                    }
                })?;
            }
        }
        Ok(has_moved)
    }
}

const fn tag(lane: Lane) -> MpiTag {
    lane as MpiTag
}
