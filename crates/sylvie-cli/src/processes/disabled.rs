//! What a program says that was built without MPI.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::{TrainArgs, Transport};
use crate::launcher;

/// Refuses.
///
/// # Errors
/// Always, on the first of the processes that were started together; the others end without a word.
pub(crate) fn run(args: TrainArgs) -> Result<ExitCode> {
    if launcher::number().is_some_and(|number| number > 0) {
        return Ok(ExitCode::FAILURE);
    }
    let what = match args.transport() {
        Transport::Nccl => "--transport nccl between processes",
        Transport::Mpi | Transport::Threads => "--transport mpi",
    };
    bail!(
        "{what}: this program was built without MPI; install an MPI library and build it with `cargo build \
         --release --features mpi` (docs/cluster.md)"
    )
}
