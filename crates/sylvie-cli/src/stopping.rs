//! Signals that ask a run to end after its epoch.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether this process was asked to stop, and by which signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stopping {
    /// From now on the first SIGINT, SIGTERM or SIGUSR1 is taken note of; the second ends the process as
    /// it always did.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn listen() -> io::Result<Self> {
        let stopping = Self::default();
        #[cfg(unix)]
        {
            use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
            use signal_hook::flag;

            for signal in [SIGINT, SIGTERM, SIGUSR1] {
                // In this order: the first signal finds the flag not set.
                flag::register_conditional_default(signal, Arc::clone(&stopping.flag))?;
                flag::register_usize(signal, Arc::clone(&stopping.signal), signal as usize)?;
                flag::register(signal, Arc::clone(&stopping.flag))?;
            }
        }
        Ok(stopping)
    }

    /// Set once the run is to end.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The number of the signal, 0 before there is one.
    pub(crate) fn signal(&self) -> u8 {
        self.signal.load(Ordering::SeqCst) as u8
    }
}

/// The status with which a process ends that a signal has stopped.
pub(crate) fn status(signal: u8) -> u8 {
    128_u8.saturating_add(signal)
}
