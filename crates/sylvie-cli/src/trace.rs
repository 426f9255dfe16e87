//! A trace of every step of every rank, as chrome://tracing and ui.perfetto.dev read it.
//!
//! Ranks are processes; their threads are `compute` and `communication`. What is on the network overlaps
//! and is on no thread: each transfer has a begin, an end and a number of its own.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

    /// Writes what ranks that are processes noted, as [`Spans::lines_of`] gives it, and gives the path.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(feature = "mpi")]
    pub(crate) fn write_lines(self, ranks: &[Vec<u8>]) -> Result<PathBuf> {
        let mut file = AsideFile::create(&self.path)?;
        write_lines(&mut file, ranks).with_context(|| shown(&self.path))?;
        file.commit()?;
        Ok(self.path)
    }
}

/// Everything in the order of time.
#[cfg(feature = "mpi")]
fn write_lines(output: &mut impl io::Write, ranks: &[Vec<u8>]) -> io::Result<()> {
    let mut list = List::begin(output, ranks.len())?;
    let lines = ranks.iter().flat_map(|text| text.split(|&byte| byte == b'\n'));
    let mut lines: Vec<_> = lines.filter_map(|line| line.split_at_checked(N_DIGITS)).collect();
    lines.sort_by_key(|(at, _)| *at);
    for (_, element) in lines {
        list.push_text(element)?;
    }
    list.end()
}

/// Digits of the nanoseconds before a line: those of the largest number.
#[cfg(feature = "mpi")]
const N_DIGITS: usize = 39;

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
        let ranks: Vec<_> = (0..self.ranks.len()).map(|rank| self.of(rank)).collect();
        let mut list = List::begin(output, ranks.len())?;
        let mut moments: Vec<_> = ranks.iter().flat_map(|spans| moments_of(spans)).collect();
        moments.sort_by_key(|moment| moment.at);
        for moment in &moments {
            list.push(&Event::of(moment))?;
        }
        list.end()
    }

    /// What one rank noted, an element of the trace a line, each behind the nanoseconds of its moment.
    ///
    /// # Errors
    /// None that is known of: events have a form in JSON.
    #[cfg(feature = "mpi")]
    pub(crate) fn lines_of(&self, rank: usize) -> Result<Vec<u8>> {
        use io::Write as _;

        let mut lines = Vec::new();
        for moment in moments_of(&self.of(rank)) {
            write!(lines, "{:0N_DIGITS$}", moment.at.as_nanos())?;
            serde_json::to_writer(&mut lines, &Event::of(&moment))?;
            lines.push(b'\n');
        }
        Ok(lines)
    }

    fn of(&self, rank: usize) -> MutexGuard<'_, Vec<Span>> {
        self.ranks[rank].lock().unwrap_or_else(PoisonError::into_inner)
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

impl<'a, W: io::Write> List<'a, W> {
    /// Begins a trace with the names of ranks and threads.
    fn begin(output: &'a mut W, n_ranks: usize) -> io::Result<Self> {
        output.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut list = Self { output, is_empty: true };
        for rank in 0..n_ranks {
            list.push(&Naming::of_rank(rank))?;
            for (thread, name) in THREADS.iter().enumerate() {
                list.push(&Naming::of_thread(rank, thread, name))?;
            }
        }
        Ok(list)
    }

    fn push(&mut self, element: &impl Serialize) -> io::Result<()> {
        self.push_text(&serde_json::to_vec(element)?)
    }

    fn push_text(&mut self, element: &[u8]) -> io::Result<()> {
        let is_first = mem::replace(&mut self.is_empty, false);
        self.output.write_all(if is_first { b"\n" } else { b",\n" })?;
        self.output.write_all(element)
    }

    fn end(self) -> io::Result<()> {
        self.output.write_all(b"\n]}\n")
    }
}

/// A line of the trace, before it is one.
struct Moment<'a> {
    at: Duration,
    phase: Phase,
    /// Of the span among its rank's.
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

/// What the spans of a rank are in the trace.
fn moments_of(spans: &[Span]) -> impl Iterator<Item = Moment<'_>> {
    spans.iter().enumerate().flat_map(|(number, span)| moments(number, span))
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
            id: (!is_whole).then(|| format!("{}.{number}", span.rank)),
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
                       "tid": 1, "ts": 2.75, "id": "1.1", "args": args}),
                json!({"name": "transfer forward 1", "cat": "network", "ph": "e", "pid": 1,
                       "tid": 1, "ts": 9.0, "id": "1.1", "args": args}),
            ]
        );
    }

    #[cfg(feature = "mpi")]
    #[test]
    fn ranks_that_are_processes_leave_the_same_trace() {
        let spans = Spans::new(2);
        for (rank, start) in [(1, 70), (0, 900), (1, 1500), (0, 80)] {
            let activity = Activity::Transfer(1, Pass::Backward);
            let [start, end] = [start, start + 1000].map(Duration::from_nanos);
            let lane = if start.as_nanos() == 80 { Lane::Compute } else { Lane::Network };
            let purpose = Purpose::Training;
            spans.span(&Span { rank, lane, activity, purpose, epoch: 0, start, end });
        }
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        spans.write(&mut whole).unwrap();
        let ranks: Vec<_> = (0..2).map(|rank| spans.lines_of(rank).unwrap()).collect();
        super::write_lines(&mut parts, &ranks).unwrap();
        assert_eq!(String::from_utf8(parts), String::from_utf8(whole));
    }
}
