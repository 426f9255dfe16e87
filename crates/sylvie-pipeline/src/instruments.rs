//! What a run is watched with: a clock, and whoever wants to know of every step.

use std::fmt;
use std::time::Duration;

use sylvie_comm::Purpose;
use sylvie_random::Pass;

use crate::schedule::Step;

/// Time since some fixed moment; closures are clocks. The pipeline reads it, and never the system's clock
/// itself.
///
/// # Example
/// ```
/// use std::time::Instant;
/// use sylvie_pipeline::{Clock, Instruments};
///
/// let start = Instant::now();
/// let clock = || start.elapsed();
/// let instruments = Instruments::clock(&clock);
/// assert!(instruments.clock.now() <= clock.now());
/// ```
pub trait Clock: Sync {
    /// Time now.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The thread that computes.
    Compute,
    /// The thread that encodes, sends, receives and decodes.
    Communication,
    /// Between ranks. Several exchanges may be under way at a time.
    Network,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A step of the schedule.
    Step(Step),
    /// Encoding the rows that a layer's pass sends, and handing them over.
    Encode(usize, Pass),
    /// From there until the rows of the other parts have arrived.
    Transfer(usize, Pass),
    /// Decoding them.
    Decode(usize, Pass),
    /// Summing a layer's weight gradients over the ranks.
    Sum(usize),
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => step.fmt(f),
            Self::Encode(layer, pass) => write!(f, "encode {} {layer}", pass.name()),
            Self::Transfer(layer, pass) => write!(f, "transfer {} {layer}", pass.name()),
            Self::Decode(layer, pass) => write!(f, "decode {} {layer}", pass.name()),
            Self::Sum(layer) => write!(f, "sum {layer}"),
        }
    }
}

/// One thing that happened, with its times on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Rank.
    pub rank: usize,
    /// Where.
    pub lane: Lane,
    /// What.
    pub activity: Activity,
    /// Training or evaluation.
    pub purpose: Purpose,
    /// Epoch, from 0.
    pub epoch: u32,
    /// Begin.
    pub start: Duration,
    /// End.
    pub end: Duration,
}

/// Whoever wants to know of every step of every rank; called on the threads of the ranks. Closures are
/// tracers.
///
/// # Example
/// ```
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use sylvie_comm::Purpose;
/// use sylvie_pipeline::{Activity, Instruments, Lane, Span, Tracer};
/// use sylvie_random::Pass;
///
/// let spans = Mutex::new(Vec::new());
/// let tracer = |span: &Span| spans.lock().expect("no rank has panicked").push(*span);
/// let clock = || Duration::ZERO;
/// let instruments = Instruments { clock: &clock, tracer: Some(&tracer) }; // for `train`
/// assert!(instruments.tracer.is_some());
///
/// // What a rank does with it.
/// tracer.span(&Span {
///     rank: 0,
///     lane: Lane::Communication,
///     activity: Activity::Encode(1, Pass::Forward),
///     purpose: Purpose::Training,
///     epoch: 3,
///     start: Duration::from_millis(4),
///     end: Duration::from_millis(6),
/// });
/// let spans = spans.lock().expect("no rank has panicked");
/// let encoding = spans.iter().filter(|span| matches!(span.activity, Activity::Encode(..)));
/// assert_eq!(encoding.map(|span| span.end - span.start).sum::<Duration>().as_millis(), 2);
/// assert_eq!(spans[0].activity.to_string(), "encode forward 1");
/// ```
pub trait Tracer: Sync {
    /// Takes note of what happened.
    fn span(&self, span: &Span);
}

impl<F: Fn(&Span) + Sync> Tracer for F {
    fn span(&self, span: &Span) {
        self(span);
    }
}

/// What a run is watched with.
#[derive(Clone, Copy)]
pub struct Instruments<'a> {
    /// The clock of all times.
    pub clock: &'a dyn Clock,
    /// Told of every step, if there is one.
    pub tracer: Option<&'a dyn Tracer>,
}

impl<'a> Instruments<'a> {
    /// A clock alone.
    #[must_use]
    pub fn clock(clock: &'a dyn Clock) -> Self {
        Self { clock, tracer: None }
    }
}

impl fmt::Debug for Instruments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instruments").field("traces", &self.tracer.is_some()).finish()
    }
}

/// The instruments in the hands of one thread of a rank.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    instruments: Instruments<'a>,
    rank: usize,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(instruments: Instruments<'a>, rank: usize) -> Self {
        Self { instruments, rank }
    }

    pub(crate) fn now(self) -> Duration {
        self.instruments.clock.now()
    }

    /// Notes what happened since `start`, and returns how long it took.
    pub(crate) fn note(
        self,
        lane: Lane,
        activity: Activity,
        (purpose, epoch): (Purpose, u32),
        start: Duration,
    ) -> Duration {
        let end = self.now();
        if let Some(tracer) = self.instruments.tracer {
            let rank = self.rank;
            tracer.span(&Span { rank, lane, activity, purpose, epoch, start, end });
        }
        end.saturating_sub(start)
    }
}
