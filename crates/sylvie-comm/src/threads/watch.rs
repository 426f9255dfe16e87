//! The only place where a rank blocks.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Select, Sender, TryRecvError};

use super::abort::Alarm;
use super::modelled::{InTransit, SharedNetwork};
use crate::link::Flow;
use crate::{CommError, Operation};

/// What every call of a rank may be interrupted or delayed by.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    pub(super) rank: usize,
    pub(super) deadline: Duration,
    pub(super) alarm: Alarm,
    pub(super) network: Option<SharedNetwork>,
}

/// What one call waits for, since when, and what may interrupt it.
pub(super) struct Watch {
    around: Surroundings,
    operation: Operation,
    started: Instant,
}

impl Watch {
    pub(super) fn new(around: Surroundings, operation: Operation, started: Instant) -> Self {
        Self { around, operation, started }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn operation(&self) -> Operation {
        self.operation
    }

    /// Hands `message` to `peer`, which never blocks.
    pub(super) fn send<T>(
        &self,
        to: &Sender<InTransit<T>>,
        peer: usize,
        message: T,
        n_bytes: usize,
    ) -> Result<(), CommError> {
        let network = self.around.network.as_ref();
        let flow = network.and_then(|network| network.send(self.around.rank, peer, n_bytes));
        to.send(InTransit { message, flow }).map_err(|_| self.departed(peer))
    }

    /// The next message of `peer`, arrived; sleeps until then.
    pub(super) fn receive<T>(
        &self,
        from: &Receiver<InTransit<T>>,
        peer: usize,
    ) -> Result<T, CommError> {
        let InTransit { message, flow } = self.receive_sent(from, peer)?;
        self.await_arrival(flow, peer)?;
        Ok(message)
    }

    /// The next message of `peer`, which may still be in transit; sleeps until it has been sent, the run
    /// is aborted, the peer has left or the call's deadline has passed.
    pub(super) fn receive_sent<T>(&self, from: &Receiver<T>, peer: usize) -> Result<T, CommError> {
        if let Some(message) = self.poll_sent(from, peer)? {
            return Ok(message);
        }
        let alarm = &self.around.alarm;
        let mut select = Select::new();
        let from_peer = select.recv(from);
        select.recv(alarm.closed());
        match select.select_timeout(self.remaining()) {
            Ok(ready) if ready.index() == from_peer => {
                ready.recv(from).map_err(|_| self.departed(peer))
            }
            Ok(ready) => match ready.recv(alarm.closed()) {
                Ok(never) => match never {},
                Err(_) => Err(self.departed(peer)),
            },
            Err(_) => Err(self.timeout(peer)),
        }
    }

    /// The next message of `peer` if it has been sent; it may still be in transit.
    pub(super) fn poll_sent<T>(
        &self,
        from: &Receiver<T>,
        peer: usize,
    ) -> Result<Option<T>, CommError> {
        match from.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.departed(peer)),
        }
    }

    /// Sleeps until a message of `peer` has arrived, the run is aborted or the call's deadline has
    /// passed.
    pub(super) fn await_arrival(&self, flow: Option<Flow>, peer: usize) -> Result<(), CommError> {
        let Some((network, flow)) = self.around.network.as_ref().zip(flow) else { return Ok(()) };
        // Messages sent meanwhile may delay this one beyond what was foretold.
        while let Some(left) = network.time_left(&flow) {
            let remaining = self.remaining();
            if remaining.is_zero() {
                return Err(self.timeout(peer));
            }
            match self.around.alarm.closed().recv_timeout(left.min(remaining)) {
                Ok(never) => match never {},
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.departed(peer)),
            }
        }
        Ok(())
    }

    /// Whether a message has arrived, which takes its flow away.
    pub(super) fn has_arrived(&self, flow: &mut Option<Flow>) -> bool {
        let network = self.around.network.as_ref();
        let is_in_transit = |(network, flow): (&SharedNetwork, &mut _)| !network.has_arrived(flow);
        if network.zip(flow.as_mut()).is_some_and(is_in_transit) {
            return false;
        }
        *flow = None;
        true
    }

    /// Fails once the deadline has passed, for want of a message of `peer`.
    pub(super) fn check_deadline(&self, peer: usize) -> Result<(), CommError> {
        let is_over = self.started.elapsed() > self.around.deadline;
        if is_over { Err(self.timeout(peer)) } else { Ok(()) }
    }

    fn remaining(&self) -> Duration {
        self.around.deadline.saturating_sub(self.started.elapsed())
    }

    /// A closed channel, the peer's or the alarm's. The cause of an abort is set before either closes: a
    /// peer that failed has raised the abort before it closed its channels, so
    /// without one it left of its own accord.
    fn departed(&self, peer: usize) -> CommError {
        let departed = CommError::Departed { peer, operation: self.operation };
        self.around.alarm.check().err().unwrap_or(departed)
    }

    fn timeout(&self, peer: usize) -> CommError {
        let (rank, operation) = (self.around.rank, self.operation);
        CommError::Timeout { rank, operation, peer, waited: self.started.elapsed() }
    }
}
