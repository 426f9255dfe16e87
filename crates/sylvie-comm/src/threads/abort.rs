//! The one piece of state that ranks share: whether the run is over, and why.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::CommError;

/// Who ended the run, and what it said.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) rank: usize,
    pub(super) text: String,
}

/// An abort that may be raised once.
///
/// A rank that blocks learns of it because the only sender of a channel on which nothing is ever sent
/// is dropped. `cause` is set before that, so whoever sees the closed channel sees the cause: the
/// channel's own synchronisation orders the two.
#[derive(Debug)]
pub(super) struct Abort {
    cause: OnceLock<Cause>,
    open: Mutex<Option<Sender<Infallible>>>,
    closed: Receiver<Infallible>,
}

impl Abort {
    pub(super) fn new() -> Arc<Self> {
        let (open, closed) = bounded(0);
        Arc::new(Self { cause: OnceLock::new(), open: Mutex::new(Some(open)), closed })
    }

    /// A rank's hold on the abort.
    pub(super) fn alarm(self: &Arc<Self>) -> Alarm {
        Alarm { abort: Arc::clone(self) }
    }

    pub(super) fn raise(&self, rank: usize, text: &str) {
        // A second cause is a consequence of the first, or came too late.
        let _ = self.cause.set(Cause { rank, text: text.to_owned() });
        // Taking the sender out of a poisoned lock is as good as from any other.
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn cause(&self) -> Option<&Cause> {
        self.cause.get()
    }
}

/// What a rank needs to hear and to raise an abort.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    abort: Arc<Abort>,
}

impl Alarm {
    pub(super) fn raise(&self, rank: usize, text: &str) {
        self.abort.raise(rank, text);
    }

    /// Closed once the run is aborted; nothing ever arrives on it.
    pub(super) fn closed(&self) -> &Receiver<Infallible> {
        &self.abort.closed
    }

    /// Fails once the run is aborted.
    pub(super) fn check(&self) -> Result<(), CommError> {
        match self.abort.cause() {
            None => Ok(()),
            Some(Cause { rank, text }) => {
                Err(CommError::Aborted { rank: *rank, cause: text.clone() })
            }
        }
    }
}
