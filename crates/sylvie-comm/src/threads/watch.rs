//! The only place where a rank blocks.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender, TryRecvError};

use super::abort::Alarm;
use crate::{CommError, Operation};

/// What one call waits for, since when, and what may interrupt it.
pub(super) struct Watch {
    rank: usize,
    operation: Operation,
    alarm: Alarm,
    started: Instant,
    deadline: Duration,
}

impl Watch {
    pub(super) fn new(
        rank: usize,
        operation: Operation,
        alarm: Alarm,
        started: Instant,
        deadline: Duration,
    ) -> Self {
        Self { rank, operation, alarm, started, deadline }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn operation(&self) -> Operation {
        self.operation
    }

    /// The next message of `peer`; sleeps until it is there, the run is aborted, the peer has left
    /// or the call's deadline has passed.
    pub(super) fn receive<T>(&self, from: &Receiver<T>, peer: usize) -> Result<T, CommError> {
        if let Some(message) = self.poll(from, peer)? {
            return Ok(message);
        }
        let mut select = Select::new();
        let from_peer = select.recv(from);
        select.recv(self.alarm.closed());
        let remaining = self.deadline.saturating_sub(self.started.elapsed());
        match select.select_timeout(remaining) {
            Ok(ready) if ready.index() == from_peer => {
                ready.recv(from).map_err(|_| self.departed(peer))
            }
            Ok(ready) => match ready.recv(self.alarm.closed()) {
                Ok(never) => match never {},
                // The cause is set before the channel closes, so the check fails here.
                Err(_) => self.alarm.check().and(Err(self.departed(peer))),
            },
            Err(_) => Err(self.timeout(peer)),
        }
    }

    /// The next message of `peer` if it is there.
    pub(super) fn poll<T>(&self, from: &Receiver<T>, peer: usize) -> Result<Option<T>, CommError> {
        match from.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.departed(peer)),
        }
    }

    /// Fails once the deadline has passed, for want of a message of `peer`.
    pub(super) fn check_deadline(&self, peer: usize) -> Result<(), CommError> {
        if self.started.elapsed() > self.deadline { Err(self.timeout(peer)) } else { Ok(()) }
    }

    /// Hands `message` to `peer`, which never blocks.
    pub(super) fn send<T>(&self, to: &Sender<T>, peer: usize, message: T) -> Result<(), CommError> {
        to.send(message).map_err(|_| self.departed(peer))
    }

    /// A closed channel: a peer that failed has raised the abort before it closed its channels, so
    /// without one it left of its own accord.
    fn departed(&self, peer: usize) -> CommError {
        let departed = CommError::Departed { peer, operation: self.operation };
        self.alarm.check().err().unwrap_or(departed)
    }

    fn timeout(&self, peer: usize) -> CommError {
        let (rank, operation) = (self.rank, self.operation);
        CommError::Timeout { rank, operation, peer, waited: self.started.elapsed() }
    }
}
