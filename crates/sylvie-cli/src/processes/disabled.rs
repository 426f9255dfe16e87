//! What a program says that was built without MPI.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::TrainArgs;

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) fn run(_: TrainArgs) -> Result<ExitCode> {
    bail!(
        "--transport mpi: this program was built without MPI; install an MPI library and build it with \
         `cargo build --release --features mpi` (docs/cluster.md)"
    )
}
