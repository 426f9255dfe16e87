//! What goes to one peer on one lane, in the order in which it was sent.

use std::collections::VecDeque;

use super::in_flight::{Route, Sending};
use super::round::Sent;
use super::spare::Spare;

/// Messages that MPI has not got or not done with. One is handed over once all of the one before is.
#[derive(Default)]
pub(super) struct Outbox(VecDeque<(Sending, Sent)>);

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, message: Vec<u8>, sent: Sent) {
        self.0.push_back((Sending::new(message), sent));
    }

    /// Hands over what may go, and takes back what is done; whether there was any of either.
    pub(super) fn advance(&mut self, route: Route<'_>, spare: &mut Spare) -> bool {
        let mut has_moved = false;
        for (sending, _) in &mut self.0 {
            has_moved |= sending.advance(route);
            if !sending.is_all_handed() {
                break;
            }
        }
        let n_before = self.0.len();
        self.0.retain_mut(|(sending, sent)| {
            let Some(buffer) = sending.finish() else { return true };
            if *sent == Sent::Kept {
                spare.put(buffer);
            }
            false
        });
        has_moved || self.0.len() < n_before
    }
}
