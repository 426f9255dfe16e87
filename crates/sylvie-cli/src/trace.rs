//! A trace of every step of every rank, as chrome://tracing and ui.perfetto.dev read it.
//!
//! Ranks are processes; their threads are `compute` and `communication`. What is on the network overlaps
//! and is on no thread: each transfer has a begin, an end and a number of its own.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use sylvie::data::shown;
use sylvie::pipeline::{Lane, Span, Tracer};

use crate::aside::AsideFile;

/// The threads of a rank, by their numbers.
const THREADS: [&str; 2] = ["compute", "communication"];

/// A place that a trace will be written to.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
}

impl TraceFile {
    /// Checks that a file can be written at `path`. Nothing is left there before the trace is, so that a
    /// run that is killed leaves nothing behind.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        drop(AsideFile::create(path)?);
        Ok(Self { path: path.to_owned() })
    }

    /// Writes what was noted, and gives the path.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(self, spans: &Spans) -> Result<PathBuf> {
        let mut file = AsideFile::create(&self.path)?;
        spans.write(&mut file).with_context(|| shown(&self.path))?;
        file.commit()?;
        Ok(self.path)
    }
}

/// What happened on each rank.
#[derive(Debug)]
pub(crate) struct Spans {
    ranks: Vec<Mutex<Vec<Span>>>,
}

impl Spans {
    /// Nothing yet, of so many ranks.
    pub(crate) fn new(n_ranks: usize) -> Self {
        Self { ranks: (0..n_ranks).map(|_| Mutex::default()).collect() }
    }

    /// Everything in the order of time.
    fn write(&self, output: &mut impl io::Write) -> io::Result<()> {
        let ranks =
            self.ranks.iter().map(|spans| spans.lock().unwrap_or_else(PoisonError::into_inner));
        let ranks: Vec<_> = ranks.collect();
        let mut list = List { output, is_empty: true };
        list.output.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        for rank in 0..ranks.len() {
            list.push(&Naming::of_rank(rank))?;
            for (thread, name) in THREADS.iter().enumerate() {
                list.push(&Naming::of_thread(rank, thread, name))?;
            }
        }
        let spans = ranks.iter().flat_map(|spans| spans.iter()).enumerate();
        let mut moments: Vec<_> = spans.flat_map(|(number, span)| moments(number, span)).collect();
        moments.sort_by_key(|moment| moment.at);
        for moment in &moments {
            list.push(&Event::of(moment))?;
        }
        list.output.write_all(b"\n]}\n")
    }
}

impl Tracer for Spans {
    fn span(&self, span: &Span) {
        if let Some(spans) = self.ranks.get(span.rank) {
            spans.lock().unwrap_or_else(PoisonError::into_inner).push(*span);
        }
    }
}

/// The elements of an array, a line each.
struct List<'a, W> {
    output: &'a mut W,
    is_empty: bool,
}

impl<W: io::Write> List<'_, W> {
    fn push(&mut self, element: &impl Serialize) -> io::Result<()> {
        let is_first = mem::replace(&mut self.is_empty, false);
        self.output.write_all(if is_first { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *self.output, element).map_err(io::Error::from)
    }
}

/// A line of the trace, before it is one.
struct Moment<'a> {
    at: Duration,
    phase: Phase,
    number: usize,
    span: &'a Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A whole span on a thread.
    Whole,
    Begin,
    End,
}

/// What a span is in the trace.
fn moments(number: usize, span: &Span) -> impl Iterator<Item = Moment<'_>> {
    let moment = move |at, phase| Moment { at, phase, number, span };
    let moments = match span.lane {
        Lane::Compute | Lane::Communication => [Some(moment(span.start, Phase::Whole)), None],
        Lane::Network => {
            [Some(moment(span.start, Phase::Begin)), Some(moment(span.end, Phase::End))]
        }
    };
    moments.into_iter().flatten()
}

/// The name of a process or a thread.
#[derive(Serialize)]
struct Naming<'a> {
    name: &'static str,
    ph: char,
    pid: usize,
    tid: usize,
    args: Name<'a>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: Cow<'a, str>,
}

impl<'a> Naming<'a> {
    fn of_rank(rank: usize) -> Self {
        let args = Name { name: format!("rank {rank}").into() };
        Self { name: "process_name", ph: 'M', pid: rank, tid: 0, args }
    }

    fn of_thread(rank: usize, thread: usize, name: &'a str) -> Self {
        let args = Name { name: name.into() };
        Self { name: "thread_name", ph: 'M', pid: rank, tid: thread, args }
    }
}

/// Something that happened. Times are in microseconds.
#[derive(Serialize)]
struct Event {
    name: String,
    cat: &'static str,
    ph: char,
    pid: usize,
    tid: usize,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    args: When,
}

#[derive(Serialize)]
struct When {
    epoch: u32,
    purpose: &'static str,
}

impl Event {
    fn of(moment: &Moment<'_>) -> Self {
        let Moment { at, phase, number, span } = *moment;
        let (cat, tid) = match span.lane {
            Lane::Compute => (THREADS[0], 0),
            Lane::Communication => (THREADS[1], 1),
            Lane::Network => ("network", 1),
        };
        let microseconds = |time: Duration| time.as_nanos() as f64 / 1e3;
        let is_whole = phase == Phase::Whole;
        Self {
            name: span.activity.to_string(),
            cat,
            ph: match phase {
                Phase::Whole => 'X',
                Phase::Begin => 'b',
                Phase::End => 'e',
            },
            pid: span.rank,
            tid,
            ts: microseconds(at),
            dur: is_whole.then(|| microseconds(span.end.saturating_sub(span.start))),
            id: (!is_whole).then(|| number.to_string()),
            args: When { epoch: span.epoch, purpose: span.purpose.name() },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use sylvie::comm::Purpose;
    use sylvie::pipeline::{Activity, Lane, Span, Step, Tracer as _};
    use sylvie::random::Pass;

    use super::Spans;

    #[test]
    fn spans_become_events_in_the_order_of_time() {
        let span = |lane, activity, start, end| Span {
            rank: 1,
            lane,
            activity,
            purpose: Purpose::Training,
            epoch: 7,
            start: Duration::from_nanos(start),
            end: Duration::from_nanos(end),
        };
        let spans = Spans::new(2);
        // As they end.
        spans.span(&span(Lane::Communication, Activity::Encode(1, Pass::Forward), 1500, 2750));
        spans.span(&span(Lane::Network, Activity::Transfer(1, Pass::Forward), 2750, 9000));
        spans.span(&span(Lane::Compute, Activity::Step(Step::Loss), 2000, 9500));
        let mut text = Vec::new();
        spans.write(&mut text).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(
            events[3..6],
            [
                json!({"name": "process_name", "ph": "M", "pid": 1, "tid": 0,
                       "args": {"name": "rank 1"}}),
                json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": 0,
                       "args": {"name": "compute"}}),
                json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": 1,
                       "args": {"name": "communication"}}),
            ]
        );
        let args = json!({"epoch": 7, "purpose": "training"});
        assert_eq!(
            events[6..],
            [
                json!({"name": "encode forward 1", "cat": "communication", "ph": "X", "pid": 1,
                       "tid": 1, "ts": 1.5, "dur": 1.25, "args": args}),
                json!({"name": "loss", "cat": "compute", "ph": "X", "pid": 1,
                       "tid": 0, "ts": 2.0, "dur": 7.5, "args": args}),
                json!({"name": "transfer forward 1", "cat": "network", "ph": "b", "pid": 1,
                       "tid": 1, "ts": 2.75, "id": "1", "args": args}),
                json!({"name": "transfer forward 1", "cat": "network", "ph": "e", "pid": 1,
                       "tid": 1, "ts": 9.0, "id": "1", "args": args}),
            ]
        );
    }
}
