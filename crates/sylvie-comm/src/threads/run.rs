//! Runs one closure on every rank and brings all of them down together.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use super::abort::{Abort, Cause};
use super::{ThreadOptions, Threads, connect};
use crate::{Communicator, MessageLength, panic_text};

/// Why a run failed: the first rank that failed, not those that it took down.
///
/// # Example
/// ```
/// use sylvie_comm::{Communicator, RankError, ThreadOptions, Threads, run_ranks};
///
/// let outcome = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
///     if comm.rank() == 1 {
///         return Err("its part is not there".to_owned());
///     }
///     comm.barrier().map_err(|error| error.to_string()) // fails, for rank 1 is gone
/// });
/// let Err(RankError::Failed { rank, source }) = outcome else { panic!("no rank fails") };
/// assert_eq!((rank, source.as_str()), (1, "its part is not there"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError<E> {
    /// A rank returned an error.
    #[error("rank {rank} failed")]
    Failed {
        /// The rank.
        rank: usize,
        /// What it returned.
        source: E,
    },
    /// A rank panicked.
    #[error("rank {rank} panicked: {message}")]
    Panicked {
        /// The rank.
        rank: usize,
        /// The panic's message.
        message: String,
    },
    /// A rank aborted the run and then returned without an error.
    #[error("rank {rank} aborted the run: {cause}")]
    Aborted {
        /// The rank.
        rank: usize,
        /// What it said.
        cause: String,
    },
    /// The system refused a thread.
    #[error("no thread for rank {rank}")]
    Spawn {
        /// The rank that was not started.
        rank: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

/// How a rank ended.
enum Ending<T, E> {
    Returned(T),
    Failed(E),
    Panicked(String),
}

/// Runs `body` as `n_ranks` ranks, each on its own thread, and returns what they returned, in rank
/// order.
///
/// A rank that returns an error, panics or [aborts](Communicator::abort) takes the others down: their
/// current or next call fails with [`CommError::Aborted`](crate::CommError::Aborted). All threads have
/// ended when this returns. `body` gets the communicator by reference because the peers must hear of a
/// failure before they see its channels closed.
///
/// A rank that never calls its communicator again is waited for; nothing can stop a thread from
/// outside. With `panic = "abort"` a panic ends the process as usual.
///
/// # Errors
/// The root cause: the first rank that failed. Errors and panics of other ranks after it are dropped.
/// # Panics
/// If `n_ranks` is 0, or if the link model's bandwidth or ranks per host are not above 0.
/// # Example
/// ```
/// use sylvie_comm::{CommError, Communicator, ThreadOptions, Threads, run_ranks};
///
/// let sums = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
///     let mut values = [comm.rank() as f32, 1.0];
///     comm.reduce(&mut values)?;
///     Ok::<_, CommError>(values)
/// })?;
/// assert_eq!(sums, [[3.0, 3.0]; 3]);
/// # Ok::<(), sylvie_comm::RankError<CommError>>(())
/// ```
pub fn run_ranks<B, T, E, F>(
    n_ranks: usize,
    options: &ThreadOptions,
    body: F,
) -> Result<Vec<T>, RankError<E>>
where
    B: Send + MessageLength,
    T: Send,
    E: Send + Display,
    F: Fn(&mut Threads<B>) -> Result<T, E> + Sync,
{
    assert!(n_ranks > 0, "a run has at least one rank");
    let abort = Abort::new();
    let endings = spawn_and_join(n_ranks, options, &abort, &body)?;
    judge(endings, &abort)
}

/// One ending a rank, in rank order.
fn spawn_and_join<B, T, E, F>(
    n_ranks: usize,
    options: &ThreadOptions,
    abort: &Arc<Abort>,
    body: &F,
) -> Result<Vec<Ending<T, E>>, RankError<E>>
where
    B: Send + MessageLength,
    T: Send,
    E: Send + Display,
    F: Fn(&mut Threads<B>) -> Result<T, E> + Sync,
{
    let mut refused = None;
    let endings = thread::scope(|scope| {
        let mut handles = Vec::with_capacity(n_ranks);
        for comm in connect(n_ranks, options, abort) {
            let rank = comm.rank();
            let builder =
                thread::Builder::new().name(format!("rank {rank}")).stack_size(options.stack_bytes);
            match builder.spawn_scoped(scope, move || run_rank(comm, body)) {
                Ok(handle) => handles.push(handle),
                Err(source) => {
                    abort.raise(rank, "no thread for this rank");
                    refused = Some(RankError::Spawn { rank, source });
                    break;
                }
            }
        }
        let join = |handle: thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| Ending::Panicked(panic_text::of(&*panic)))
        };
        handles.into_iter().map(join).collect()
    });
    refused.map_or(Ok(endings), Err)
}

/// Runs one rank to its end. `comm` is dropped last, after the abort: a peer that finds a channel
/// closed must find the cause as well.
fn run_rank<B, T, E, F>(mut comm: Threads<B>, body: &F) -> Ending<T, E>
where
    B: Send + MessageLength,
    E: Display,
    F: Fn(&mut Threads<B>) -> Result<T, E>,
{
    // After a panic nobody uses what it may have left half done: `comm` is only aborted and dropped,
    // and whatever else the ranks share belongs to a run that is over.
    match catch_unwind(AssertUnwindSafe(|| body(&mut comm))) {
        Ok(Ok(value)) => Ending::Returned(value),
        Ok(Err(error)) => {
            comm.abort(&error.to_string());
            Ending::Failed(error)
        }
        Err(panic) => {
            let message = panic_text::of(&*panic);
            comm.abort(&format!("panicked: {message}"));
            Ending::Panicked(message)
        }
    }
}

/// The values of all ranks, or the failure of the rank that raised the abort first.
fn judge<T, E>(endings: Vec<Ending<T, E>>, abort: &Abort) -> Result<Vec<T>, RankError<E>> {
    let first = abort.cause();
    let mut values = Vec::with_capacity(endings.len());
    for (rank, ending) in endings.into_iter().enumerate() {
        let is_root = first.is_none_or(|cause| cause.rank == rank);
        match ending {
            Ending::Returned(value) => values.push(value),
            Ending::Failed(source) if is_root => return Err(RankError::Failed { rank, source }),
            Ending::Panicked(message) if is_root => {
                return Err(RankError::Panicked { rank, message });
            }
            Ending::Failed(_) | Ending::Panicked(_) => {}
        }
    }
    match first {
        None => Ok(values),
        Some(Cause { rank, text }) => Err(RankError::Aborted { rank: *rank, cause: text.clone() }),
    }
}
