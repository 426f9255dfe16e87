//! How long to sleep between two looks at what is under way.

use std::time::{Duration, Instant};

/// Less than the system's own granularity: as short as a sleep gets.
const SHORTEST: Duration = Duration::from_micros(5);
/// A thousand looks a second cost between three and four hundredths of a core.
const LONGEST: Duration = Duration::from_millis(1);
/// A sleep is this part of the time waited so far, so that it delays a message by about as much.
const SHARE: u32 = 8;

/// The time since something last moved, which decides the next pause.
///
/// Waiting costs little: MPI's own waits would spin, and take a core from whoever computes.
#[derive(Debug)]
pub(super) struct Pace {
    moved: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { moved: Instant::now() }
    }

    /// Begins again with short pauses.
    pub(super) fn quicken(&mut self) {
        self.moved = Instant::now();
    }

    pub(super) fn pause(&self) -> Duration {
        pause_after(self.moved.elapsed())
    }
}

fn pause_after(waited: Duration) -> Duration {
    (waited / SHARE).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST, SHORTEST, pause_after};

    #[test]
    fn pauses_grow_with_the_time_waited_between_their_bounds() {
        assert_eq!(pause_after(Duration::ZERO), SHORTEST);
        assert_eq!(pause_after(Duration::from_micros(800)), Duration::from_micros(100));
        assert_eq!(pause_after(Duration::from_secs(1)), LONGEST);
    }
}
