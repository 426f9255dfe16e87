//! A transport that remembers.

use sylvie_comm::{CommError, Communicator, Incoming, Outgoing, Received, Tag, Traffic};

/// A transport that keeps a copy of what it sends and of what it is given to sum.
pub(crate) struct Recording<C> {
    inner: C,
    /// Messages in the order in which they were sent: exchange, receiver, bytes.
    pub(crate) sent: Vec<(Tag, usize, Vec<u8>)>,
    pub(crate) reduced: Vec<Vec<f32>>,
}

impl<C> Recording<C> {
    pub(crate) fn new(inner: C) -> Self {
        Self { inner, sent: Vec::new(), reduced: Vec::new() }
    }
}

impl<C: Communicator<Buffer = Vec<u8>>> Communicator for Recording<C> {
    type Buffer = Vec<u8>;
    type Pending = C::Pending;

    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn start(
        &mut self,
        tag: Tag,
        sends: Vec<Outgoing<Vec<u8>>>,
        recvs: &[Incoming],
    ) -> Result<Self::Pending, CommError> {
        self.sent.extend(sends.iter().map(|send| (tag, send.peer, send.buffer.clone())));
        self.inner.start(tag, sends, recvs)
    }

    fn is_ready(&mut self, pending: &Self::Pending) -> Result<bool, CommError> {
        self.inner.is_ready(pending)
    }

    fn wait(&mut self, pending: Self::Pending) -> Result<Vec<Received<Vec<u8>>>, CommError> {
        self.inner.wait(pending)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.inner.all_gather(bytes)
    }

    fn reduce(&mut self, values: &mut [f32]) -> Result<(), CommError> {
        self.reduced.push(values.to_vec());
        self.inner.reduce(values)
    }

    fn barrier(&mut self) -> Result<(), CommError> {
        self.inner.barrier()
    }

    fn abort(&mut self, cause: &str) {
        self.inner.abort(cause);
    }

    fn traffic(&self) -> &Traffic {
        self.inner.traffic()
    }

    fn take_traffic(&mut self) -> Traffic {
        self.inner.take_traffic()
    }
}
