//! Ranks as threads of this process.

use std::time::Duration;

use anyhow::Result;
use sylvie::comm::{ThreadOptions, Threads, run_ranks};
use sylvie::pipeline::TrainError;
use sylvie::tensor::{CpuBackend, Wire};

/// Buffers that the CPU backend sends.
type Bytes = <CpuBackend as Wire>::Bytes;

/// Runs `body` on `n_ranks` ranks of `n_threads` threads each, and gives back what they returned.
///
/// # Errors
/// That of the first rank that failed.
pub(crate) fn run<T: Send>(
    n_ranks: usize,
    n_threads: u32,
    body: impl Fn(&CpuBackend, &mut Threads<Bytes>) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>> {
    // A rank that fails is seen at once; the deadline only has to exceed the longest layer.
    let options = ThreadOptions { deadline: Duration::from_secs(3600), ..ThreadOptions::default() };
    let results = run_ranks(n_ranks, &options, |comm| {
        let backend = CpuBackend::new(n_threads as usize);
        body(&backend, comm)
    })?;
    Ok(results)
}
