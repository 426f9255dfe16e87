//! Message buffers at rest.

use sylvie_random::Pass;
use sylvie_tensor::Wire;

/// Buffers of a rank, a stack for each peer and direction.
///
/// What came forward from an owner is as long as the gradients that go back to it, and what came
/// backward from a reader as long as the rows that go to it: after some epochs every buffer has met
/// the longest message of its stack, and nothing is allocated any more.
pub(super) struct Buffers<B: Wire> {
    to_readers: Vec<Vec<B::Bytes>>,
    to_owners: Vec<Vec<B::Bytes>>,
    staging: Option<B::Bytes>,
}

impl<B: Wire> Buffers<B> {
    pub(super) fn new(n_ranks: usize) -> Self {
        let stacks = || (0..n_ranks).map(|_| Vec::new()).collect();
        Self { to_readers: stacks(), to_owners: stacks(), staging: None }
    }

    /// A buffer for a message of `pass` to `peer`.
    pub(super) fn to_send(&mut self, backend: &B, peer: usize, pass: Pass) -> B::Bytes {
        let buffer = match pass {
            Pass::Forward => self.to_readers[peer].pop(),
            Pass::Backward => self.to_owners[peer].pop(),
        };
        buffer.unwrap_or_else(|| backend.bytes_from_host(Vec::new()))
    }

    /// Keeps the buffer of a message of `pass` that came from `peer`.
    pub(super) fn keep_received(&mut self, peer: usize, pass: Pass, buffer: B::Bytes) {
        match pass {
            Pass::Forward => self.to_owners[peer].push(buffer),
            Pass::Backward => self.to_readers[peer].push(buffer),
        }
    }

    /// The buffer that boundary rows are encoded into before each reader gets its own.
    pub(super) fn staging(&mut self, backend: &B) -> B::Bytes {
        self.staging.take().unwrap_or_else(|| backend.bytes_from_host(Vec::new()))
    }

    pub(super) fn keep_staging(&mut self, buffer: B::Bytes) {
        self.staging = Some(buffer);
    }
}
