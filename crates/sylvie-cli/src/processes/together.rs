//! Work that ranks do at the same time, however long it takes some of them.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use sylvie::comm::{Communicator as _, Mpi};

/// Pause between two questions after everybody's work.
const PAUSE: Duration = Duration::from_millis(20);
/// As the stacks of ranks: readers and partitioners run on it.
const STACK_BYTES: usize = 16 << 20;

/// How far a rank is.
const WORKING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

/// Does `work` on every rank, and comes back when all are done.
///
/// Ranks ask after each other all the while, so that the deadline passes only where one does not answer
/// any more: work of minutes may go on beside a deadline of seconds.
///
/// # Errors
/// That of the work, on the first rank where it failed; on others it does not come back then, and their
/// processes are ended with that rank's.
pub(super) fn together<T: Send>(
    comm: &mut Mpi,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("work".into()).stack_size(STACK_BYTES);
        let mut working = Some(builder.spawn_scoped(scope, work).context("no thread to work on")?);
        let mut outcome = None;
        loop {
            if let Some(done) = working.take_if(|working| working.is_finished()) {
                outcome = Some(done.join().map_err(|_| anyhow!("a thread panicked"))?);
            }
            let own = match &outcome {
                None => WORKING,
                Some(Ok(_)) => DONE,
                Some(Err(_)) => FAILED,
            };
            let all = comm.all_gather(&[own])?;
            let is = |state: u8| move |found: &Vec<u8>| found[..] == [state];
            if let Some(first) = all.iter().position(is(FAILED)) {
                match outcome {
                    Some(Err(error)) if first == comm.rank() => return Err(error),
                    // That rank says what it was, and ends this process too.
                    _ => comm.all_gather(&[]).map(drop)?,
                }
            }
            match outcome.take() {
                Some(Ok(value)) if all.iter().all(is(DONE)) => return Ok(value),
                other => outcome = other,
            }
            if !all.iter().all(is(DONE)) {
                thread::sleep(PAUSE);
            }
        }
    })
}
