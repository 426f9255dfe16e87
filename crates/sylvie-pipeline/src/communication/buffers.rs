//! Message buffers at rest.

use sylvie_random::Pass;
use sylvie_tensor::Wire;

use crate::policy::Memory;

/// Buffers of a rank, a stack for each peer and direction.
///
/// What came forward from an owner is as long as the gradients that go back to it, and what came
/// backward from a reader as long as the rows that go to it: after some epochs every buffer has met
/// the longest message of its stack, and nothing is allocated any more. Where more messages go one way
/// than the other, as when attention fetches rows again, stacks help each other out, and what is too
/// much is let go. Whoever wants one remote part in memory at a time keeps next to nothing.
pub(super) struct Buffers<B: Wire> {
    stacks: Vec<Vec<B::Bytes>>,
    /// In one stack, and in all together.
    max_in_stack: usize,
    max_kept: usize,
    n_kept: usize,
    staging: Option<B::Bytes>,
}

/// The stack of messages of `pass` to `peer`.
const fn number(peer: usize, pass: Pass) -> usize {
    match pass {
        Pass::Forward => 2 * peer,
        Pass::Backward => 2 * peer + 1,
    }
}

impl<B: Wire> Buffers<B> {
    pub(super) fn new(n_ranks: usize, n_slots: usize, memory: Memory) -> Self {
        // A slot has two exchanges under way at most; one part at a time is read and written.
        let (max_in_stack, max_kept) = match memory {
            Memory::All => (2 * n_slots, usize::MAX),
            Memory::Sequential => (2, 2),
        };
        let stacks = (0..2 * n_ranks).map(|_| Vec::new()).collect();
        Self { stacks, max_in_stack, max_kept, n_kept: 0, staging: None }
    }

    /// Takes a buffer for a message of `pass` to `peer`.
    pub(super) fn take(&mut self, backend: &B, peer: usize, pass: Pass) -> B::Bytes {
        let own = self.stacks[number(peer, pass)].pop();
        let any = own.or_else(|| {
            let fullest = self.stacks.iter_mut().max_by_key(|stack| stack.len());
            fullest.and_then(Vec::pop)
        });
        self.n_kept -= usize::from(any.is_some());
        any.unwrap_or_else(|| backend.bytes_from_host(Vec::new()))
    }

    /// Keeps the buffer of a message of `pass` that came from `peer`: for one that goes back.
    pub(super) fn keep(&mut self, peer: usize, pass: Pass, buffer: B::Bytes) {
        let back = match pass {
            Pass::Forward => Pass::Backward,
            Pass::Backward => Pass::Forward,
        };
        let stack = &mut self.stacks[number(peer, back)];
        if stack.len() < self.max_in_stack && self.n_kept < self.max_kept {
            stack.push(buffer);
            self.n_kept += 1;
        }
    }

    /// Takes the buffer that boundary rows are encoded into before each reader gets its own.
    pub(super) fn take_staging(&mut self, backend: &B) -> B::Bytes {
        self.staging.take().unwrap_or_else(|| backend.bytes_from_host(Vec::new()))
    }

    pub(super) fn keep_staging(&mut self, buffer: B::Bytes) {
        self.staging = Some(buffer);
    }
}
