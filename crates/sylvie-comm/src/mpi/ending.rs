//! How a job ends that does not end well: everywhere, soon, with a message and a non-zero status.
//!
//! MPI has no errors that a program could outlive, and no deadlines. So the first rank that fails ends
//! the job: it says why, asks MPI to end every process, and should that call not come back, as happens
//! when a host cannot be reached, ends its own process a little later. The launcher then ends the rest.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use mpi::topology::{Communicator as _, SimpleCommunicator};

use super::engine::Command;
use crate::panic_text;

/// Exit status of a process whose rank failed.
pub(super) const FAILED: i32 = 1;
/// Exit status of a process that panicked, as of any Rust program.
pub(super) const PANICKED: i32 = 101;
/// Time in which a launcher can read the report: it forwards output by and by, and MPICH's drops what it
/// has not got when the job is aborted.
const HEARD: Duration = Duration::from_millis(100);
/// Time that MPI has to end the job, from then on.
const GRACE: Duration = Duration::from_secs(2);

/// Why a rank ends the job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpiFault {
    /// The rank, unless it failed before it had a number.
    pub rank: Option<usize>,
    /// What happened, in words.
    pub cause: String,
}

impl fmt::Display for MpiFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank}: {}", self.cause),
            None => write!(f, "a rank that has no number yet: {}", self.cause),
        }
    }
}

/// What [`left_too_early`] finds when the process exits.
static INSTALLED: OnceLock<Arc<Ending>> = OnceLock::new();

/// The thread that calls MPI, and how to reach it.
#[derive(Debug)]
struct Service {
    rank: usize,
    thread: ThreadId,
    commands: Sender<Command>,
}

/// What it takes to end the job from any thread.
pub(super) struct Ending {
    report: Box<dyn Fn(&MpiFault) + Send + Sync>,
    service: OnceLock<Service>,
    /// Between the first call of MPI and the last: afterwards a panic is a panic.
    is_in_force: AtomicBool,
    is_under_way: AtomicBool,
}

impl Ending {
    /// Panics of every thread, and an exit before the rank has returned, end the job from now on.
    pub(super) fn install(report: impl Fn(&MpiFault) + Send + Sync + 'static) -> Arc<Self> {
        let ending = Arc::new(Self {
            report: Box::new(report),
            service: OnceLock::new(),
            is_in_force: AtomicBool::new(true),
            is_under_way: AtomicBool::new(false),
        });
        let (before, of_hook) = (panic::take_hook(), Arc::clone(&ending));
        panic::set_hook(Box::new(move |panic| {
            before(panic);
            // Unwinding might end in MPI's own finalisation, which would wait for the other ranks.
            if of_hook.is_in_force.load(Ordering::SeqCst) {
                of_hook.end(PANICKED, format!("panicked: {}", message_of(panic)));
            }
        }));
        if INSTALLED.set(Arc::clone(&ending)).is_ok() {
            on_exit(left_too_early);
        }
        ending
    }

    /// Tells which thread calls MPI: the calling one.
    pub(super) fn serve_here(&self, rank: usize, commands: Sender<Command>) {
        let service = Service { rank, thread: thread::current().id(), commands };
        self.service.set(service).expect("one thread calls MPI");
    }

    /// MPI is over, or never was.
    pub(super) fn retire(&self) {
        self.is_in_force.store(false, Ordering::SeqCst);
    }

    /// Ends the job: every process, with this status and one report.
    pub(super) fn end(&self, status: i32, cause: String) -> ! {
        let service = self.service.get();
        let is_first = !self.is_under_way.swap(true, Ordering::SeqCst);
        let is_here = service.is_some_and(|service| service.thread == thread::current().id());
        if is_first {
            exit_later(HEARD + GRACE, status);
            self.tell(cause);
            thread::sleep(HEARD);
            match service {
                Some(service) if !is_here => {
                    // Should the thread be gone, the process exits all the same.
                    drop(service.commands.send(Command::Abort(status)));
                }
                Some(_) => {}
                None => exit_now(status),
            }
        }
        if is_here {
            SimpleCommunicator::world().abort(status);
        }
        loop {
            thread::park();
        }
    }

    fn tell(&self, cause: String) {
        let rank = self.service.get().map(|service| service.rank);
        (self.report)(&MpiFault { rank, cause });
    }
}

/// Ends the process with a report unless it is dropped in time: for calls of MPI that wait for other
/// ranks and know no deadline.
pub(super) struct Fuse {
    _lit: Sender<Infallible>,
}

impl Fuse {
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn light(ending: &Arc<Ending>, length: Duration, what: &str) -> io::Result<Self> {
        let (lit, goes_out) = bounded::<Infallible>(0);
        let ending = Arc::clone(ending);
        let cause = format!("{what} took longer than {length:?}");
        let burn = move || {
            if goes_out.recv_timeout(length) == Err(RecvTimeoutError::Timeout) {
                ending.tell(cause);
                thread::sleep(HEARD);
                exit_now(FAILED);
            }
        };
        thread::Builder::new().name("deadline of MPI".into()).spawn(burn)?;
        Ok(Self { _lit: lit })
    }
}

/// A process that exits would take its rank away, and a launcher may find nothing wrong with that.
extern "C" fn left_too_early() {
    let Some(ending) = INSTALLED.get() else { return };
    let is_early = ending.is_in_force.load(Ordering::SeqCst);
    // MPI exits as well when it ends the job.
    if is_early && !ending.is_under_way.load(Ordering::SeqCst) {
        ending.end(FAILED, "the process exits before its rank has finished".into());
    }
}

#[allow(unsafe_code, reason = "the standard library has no hook for exits")]
fn on_exit(call: extern "C" fn()) {
    // SAFETY: the function is one of this program and may be called once, on any thread. Without room
    // for it in the system's list an early exit ends the job less clearly, and that is all.
    let _ = unsafe { libc::atexit(call) };
}

fn exit_later(wait: Duration, status: i32) {
    let exit = move || {
        thread::sleep(wait);
        exit_now(status)
    };
    if thread::Builder::new().name("last resort".into()).spawn(exit).is_err() {
        exit_now(status);
    }
}

/// Exits without the clean-up of libraries: MPI's own might wait for ever.
#[allow(unsafe_code, reason = "the standard library's exit runs clean-up functions")]
fn exit_now(status: i32) -> ! {
    // SAFETY: the function takes any number, touches no memory of ours and does not return.
    unsafe { libc::_exit(status) }
}

fn message_of(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    format!("{}{place}", panic_text::of(panic.payload()))
}
