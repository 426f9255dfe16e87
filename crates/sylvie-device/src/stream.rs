//! Streams, one a host thread, and the order between them.
//!
//! Every operation on a stream gets a ticket, and an event is recorded behind it. Memory remembers the
//! tickets of its last writer and of its readers since ([`crate::memory`]); whoever touches it from another
//! stream lets that stream wait for them first. So no caller ever names an event, and work of two threads
//! overlaps wherever its memory does not.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, result, sys};

use crate::DeviceError;
use crate::error::During as _;
use crate::staging::Staging;

/// Events a stream has. An event of an older ticket has been recorded again behind a later one, which is
/// as good to wait for.
const N_EVENTS: u64 = 32;

/// A place in a stream: everything up to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// The stream's number among those of its device.
    pub(crate) stream: usize,
    /// The operation's, from 1.
    pub(crate) ticket: u64,
}

/// A queue of operations on the device.
pub(crate) struct Stream {
    context: Arc<CudaContext>,
    pub(crate) number: usize,
    raw: sys::CUstream,
    events: Vec<sys::CUevent>,
    /// Tickets given out; an operation counts once its event is recorded.
    issued: AtomicU64,
    state: Mutex<State>,
}

// SAFETY: the handles are of a driver whose calls may come from any thread; what they are for is kept in
// order by `state`.
unsafe impl Send for Stream {}
// SAFETY: as for `Send`.
unsafe impl Sync for Stream {}

/// What belongs to whoever operates on a stream.
#[derive(Default)]
pub(crate) struct State {
    /// Of each stream, the last ticket that this one has waited for.
    seen: Vec<u64>,
    pub(crate) staging: Staging,
    /// A handle of a library that belongs to the stream.
    pub(crate) attached: Option<Box<dyn std::any::Any + Send>>,
}

impl Stream {
    /// # Errors
    /// The driver has no stream or event left.
    pub(crate) fn new(context: &Arc<CudaContext>, number: usize) -> Result<Self, DeviceError> {
        context.bind_to_thread().during("cuCtxSetCurrent")?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .during("cuStreamCreate")?;
        let mut stream = Self {
            context: Arc::clone(context),
            number,
            raw,
            events: Vec::new(),
            issued: AtomicU64::new(0),
            state: Mutex::default(),
        };
        for _ in 0..N_EVENTS {
            let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
            stream.events.push(result::event::create(flags).during("cuEventCreate")?);
        }
        Ok(stream)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, ticket: u64) -> sys::CUevent {
        self.events[(ticket % N_EVENTS) as usize]
    }

    /// Runs an operation behind `after`, which may lie in other streams of `all`; gives back its place.
    ///
    /// # Errors
    /// The driver's, or the operation's own.
    pub(crate) fn submit(
        &self,
        state: &mut State,
        all: &[Arc<Stream>],
        after: &[Point],
        operate: impl FnOnce(sys::CUstream) -> Result<(), DeviceError>,
    ) -> Result<Point, DeviceError> {
        self.bind()?;
        state.seen.resize(all.len().max(state.seen.len()), 0);
        for point in after {
            let seen = &mut state.seen[point.stream];
            if point.stream == self.number || *seen >= point.ticket {
                continue;
            }
            *seen = point.ticket;
            let event = all[point.stream].event(point.ticket);
            // SAFETY: streams and their events live as long as their device.
            let waited = unsafe {
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(self.raw, event, flags)
            };
            waited.during("cuStreamWaitEvent")?;
        }
        operate(self.raw)?;
        let ticket = self.issued.load(Ordering::Relaxed) + 1;
        // SAFETY: both are this stream's own.
        unsafe { result::event::record(self.event(ticket), self.raw) }.during("cuEventRecord")?;
        self.issued.store(ticket, Ordering::Release);
        Ok(Point { stream: self.number, ticket })
    }

    /// Blocks until the operation with this ticket is done.
    ///
    /// # Errors
    /// What the driver says of it or of an earlier operation.
    pub(crate) fn wait_for(&self, ticket: u64) -> Result<(), DeviceError> {
        self.bind()?;
        // SAFETY: the event is this stream's own.
        unsafe { result::event::synchronize(self.event(ticket)) }.during("cuEventSynchronize")
    }

    /// Whether the operation with this ticket is done.
    ///
    /// # Errors
    /// What the driver says of it or of an earlier operation.
    pub(crate) fn is_done(&self, ticket: u64) -> Result<bool, DeviceError> {
        self.bind()?;
        // SAFETY: the event is this stream's own.
        match unsafe { result::event::query(self.event(ticket)) } {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            outcome => outcome.during("cuEventQuery").map(|()| true),
        }
    }

    /// # Errors
    /// What the driver says.
    pub(crate) fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind_to_thread().during("cuCtxSetCurrent")
    }

    pub(crate) fn raw(&self) -> sys::CUstream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What the driver says now concerns nobody any more.
        let _ = self.context.bind_to_thread();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.attached = None;
        // SAFETY: nobody holds the stream or its events any more; work that is left runs to its end.
        unsafe {
            for &event in &self.events {
                let _ = result::event::destroy(event);
            }
            let _ = result::stream::destroy(self.raw);
        }
    }
}
