//! Whether all hosts see the run folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use sylvie::comm::{Communicator as _, Mpi};
use sylvie::data::shown;

use super::hosts;
use super::together::together;

/// What rank 0 leaves in the folder for the others to find.
const TOKEN: &str = ".sylvie-shared";
/// How often it is looked for, and how long after each other: network file systems show new files late.
const N_LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The run folder, on every rank.
#[derive(Debug)]
pub(super) struct SharedFolder {
    /// As rank 0 was given it.
    pub(super) path: PathBuf,
    /// Ranks that do not find rank 0's folder there.
    pub(super) missing: Vec<usize>,
}

/// Tells all ranks of the folder that rank 0 has, and has them look for it; `None` without one.
///
/// # Errors
/// A path that cannot be told, a folder that rank 0 cannot write to, a failing transport.
pub(super) fn find(comm: &mut Mpi, own: Option<&Path>) -> Result<Option<SharedFolder>> {
    // Whatever lies there of another job is not this.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let token = format!("{} {} {}", hosts::host(), process::id(), now.as_nanos());
    let mut told = String::new();
    if let Some(folder) = own {
        // Paths of a command line in other words than UTF-8 cannot be told to others.
        let path = folder.to_str().context("--out: no text in UTF-8")?;
        let file = folder.join(TOKEN);
        fs::write(&file, &token).with_context(|| shown(&file))?;
        told = format!("{token}\n{path}");
    }
    let all = comm.all_gather(told.as_bytes())?;
    let first = String::from_utf8_lossy(&all[0]);
    let Some((token, path)) = first.split_once('\n') else { return Ok(None) };
    let path = PathBuf::from(path);
    let file = path.join(TOKEN);
    let is_found = together(comm, || Ok(appears(&file, token.as_bytes())))?;
    let all = comm.all_gather(&[u8::from(is_found)])?;
    if own.is_some() {
        // One that stays does no harm.
        let _ = fs::remove_file(&file);
    }
    let missing = all.iter().enumerate().filter(|(_, found)| found[..] != [1]);
    Ok(Some(SharedFolder { path, missing: missing.map(|(rank, _)| rank).collect() }))
}

/// Whether a file with these contents is there, or comes.
fn appears(file: &Path, contents: &[u8]) -> bool {
    for look in 0..N_LOOKS {
        if look > 0 {
            thread::sleep(PAUSE);
        }
        if fs::read(file).is_ok_and(|found| found == contents) {
            return true;
        }
    }
    false
}
