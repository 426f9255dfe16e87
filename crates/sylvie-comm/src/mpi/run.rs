//! Runs a closure as one rank of a job whose ranks are processes.

use std::fmt::Display;
use std::io;
use std::mem::forget;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use mpi::Threading;
use mpi::environment::{Universe, initialize_with_threading, library_version};
use mpi::topology::Communicator as _;

use super::ending::{Ending, FAILED, Fuse, MpiFault};
use super::engine::{Command, Ended, Engine, Failure};
use super::{Mpi, MpiOptions};

/// Why MPI could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// This process has started MPI before; no process may do so twice.
    #[error("this process has started MPI before")]
    AlreadyStarted,
    /// The MPI library must not be used by a program with threads.
    #[error("this MPI library does not allow a program to have threads")]
    NoThreads,
    /// The system refused a thread.
    #[error("no thread for MPI")]
    Spawn(#[from] io::Error),
}

/// Runs `body` as this process's rank and returns what it returned, once the bodies of all ranks have
/// returned.
///
/// Start the program with the launcher of the MPI library (`mpirun -n 4 program`, `srun`); started by
/// itself it is the only rank. A process can do this once.
///
/// # Faults
/// A rank that fails ends the whole job, and this function does not return. It fails if `body` returns
/// an error or panics, if any other thread of the process panics, at [`abort`], if the process exits
/// meanwhile, and if the other ranks have not returned within the deadline after this one has. `report` is then called with the rank and
/// the cause (errors as `{error:#}` prints them), so that it can be written to stderr; it must not
/// block. Then MPI is told to end all processes; 2 s later this one exits by itself. Its status is 1,
/// and 101 after a panic. Other ranks may notice the same fault, or one that follows from it, and report
/// it before they are ended.
///
/// # Errors
/// MPI cannot be started; `body` has not been called then.
/// # Panics
/// If the pieces' length in `options` is not between 1 and `i32::MAX`.
///
/// [`abort`]: crate::Communicator::abort
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use sylvie_comm::{
///     CommError, Communicator, Mpi, MpiError, MpiFault, MpiOptions, mpi_library, run_mpi,
/// };
///
/// let options = MpiOptions { deadline: Duration::from_secs(300), ..MpiOptions::default() };
/// let report = |fault: &MpiFault| eprintln!("{fault}");
/// let sum = run_mpi(&options, report, |comm: &mut Mpi| {
///     let mut values = [comm.rank() as f32];
///     comm.reduce(&mut values)?;
///     Ok::<_, CommError>(values[0])
/// })?;
/// println!("the ranks add up to {sum}, under {}", mpi_library());
/// # Ok::<(), MpiError>(())
/// ```
pub fn run_mpi<T, E, F>(
    options: &MpiOptions,
    report: impl Fn(&MpiFault) + Send + Sync + 'static,
    body: F,
) -> Result<T, MpiError>
where
    E: Display,
    F: FnOnce(&mut Mpi) -> Result<T, E>,
{
    let (found, most) = (options.piece_bytes, i32::MAX as usize);
    assert!((1..=most).contains(&found), "pieces of {found} bytes instead of 1 to {most}");
    let ending = Ending::install(report);
    let started = start(options, &ending);
    if started.is_err() {
        ending.retire();
    }
    let (mut mpi, service) = started?;
    let value = body(&mut mpi).unwrap_or_else(|error| ending.end(FAILED, format!("{error:#}")));
    leave(&mpi, &ending);
    if service.join().is_err() {
        ending.end(FAILED, "the thread of MPI has panicked".into());
    }
    ending.retire();
    Ok(value)
}

/// Name and version of the MPI library that this program runs with.
#[must_use]
pub fn mpi_library() -> String {
    let text = library_version().unwrap_or_default();
    // Open MPI and MPICH go on with how they were built.
    let first = text.split([',', '\n', '\0']).next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says goodbye to the other ranks and waits for theirs, so that MPI can be finalised.
fn leave(mpi: &Mpi, ending: &Ending) {
    if let Some(failure) = mpi.failure() {
        ending.end(FAILED, failure.to_string());
    }
    let (left, all_left) = bounded(1);
    mpi.tell(Command::Leave(left));
    match all_left.recv_timeout(mpi.deadline()) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => {
            let cause = format!("waited {:?} in vain for all ranks to finish", mpi.deadline());
            ending.end(FAILED, cause);
        }
        Err(RecvTimeoutError::Disconnected) => {
            let cause = mpi.failure().map(|failure| failure.to_string());
            ending.end(FAILED, cause.unwrap_or_else(|| "the thread of MPI is gone".into()));
        }
    }
}

/// What the thread of MPI knows once MPI has started.
struct World {
    rank: usize,
    size: usize,
}

/// Starts MPI on a thread of its own, the only one that ever calls it.
fn start(options: &MpiOptions, ending: &Arc<Ending>) -> Result<(Mpi, JoinHandle<()>), MpiError> {
    let (tell, commands) = unbounded();
    let (started, starts) = bounded(1);
    let failure = Failure::new(OnceLock::new());
    let service = Service {
        ending: Arc::clone(ending),
        deadline: options.deadline,
        piece_bytes: options.piece_bytes,
        tell: tell.clone(),
        commands,
        failure: Arc::clone(&failure),
    };
    let fuse = Fuse::light(ending, options.deadline, "the start of MPI")?;
    let run = move || service.run(&started);
    let thread = thread::Builder::new().name("MPI".into()).spawn(run)?;
    let World { rank, size } = match starts.recv() {
        Ok(outcome) => outcome?,
        Err(_) => ending.end(FAILED, "MPI did not start".into()),
    };
    drop(fuse);
    let mpi = Mpi::new((rank, size), options.deadline, tell, failure, Arc::clone(ending));
    Ok((mpi, thread))
}

/// What the thread of MPI is given.
struct Service {
    ending: Arc<Ending>,
    deadline: Duration,
    piece_bytes: usize,
    tell: Sender<Command>,
    commands: Receiver<Command>,
    failure: Failure,
}

impl Service {
    fn run(self, started: &Sender<Result<World, MpiError>>) {
        // All calls come from this thread, whatever other threads there are.
        let Some((universe, threading)) = initialize_with_threading(Threading::Funneled) else {
            drop(started.send(Err(MpiError::AlreadyStarted)));
            return;
        };
        if threading < Threading::Funneled {
            drop(started.send(Err(MpiError::NoThreads)));
            return;
        }
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        self.ending.serve_here(rank, self.tell);
        drop(started.send(Ok(World { rank, size })));
        let engine = Engine::new(world, self.piece_bytes, self.commands, self.failure);
        match engine.serve() {
            Ended::Left => finalise(universe, &self.ending, self.deadline),
            // The process is about to end; finalising would wait for the other ranks.
            Ended::Deserted => forget(universe),
        }
    }
}

fn finalise(universe: Universe, ending: &Arc<Ending>, deadline: Duration) {
    let fuse = Fuse::light(ending, deadline, "the end of MPI");
    // Without the fuse's thread there is no deadline, and no reason to fail: all ranks have left.
    drop(universe);
    drop(fuse);
}
