//! The clock that runs are timed by.

use std::time::{Duration, Instant};

use sylvie::pipeline::Clock;

/// Time since this value was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}
