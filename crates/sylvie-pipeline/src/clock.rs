//! The clock that a run is timed by.

use std::time::Duration;

/// Time since some fixed moment. The pipeline reads it, and never the system's clock itself.
pub trait Clock {
    /// Time now.
    fn now(&self) -> Duration;
}

/// Adds up the time spent on one kind of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopwatch {
    pub(crate) encode: Duration,
    pub(crate) wait: Duration,
    pub(crate) decode: Duration,
    pub(crate) reduce: Duration,
}

/// Runs `work` and adds its time to `total`.
pub(crate) fn timed<R>(clock: &dyn Clock, total: &mut Duration, work: impl FnOnce() -> R) -> R {
    let start = clock.now();
    let result = work();
    *total += clock.now().saturating_sub(start);
    result
}
