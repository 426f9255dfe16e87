//! Ranks as threads of this process.

use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use sylvie::comm::{LinkModel, RankError, ThreadOptions, Threads, run_ranks};
use sylvie::pipeline::TrainError;
use sylvie::tensor::{CpuBackend, Wire};

/// Buffers that the CPU backend sends.
type Bytes = <CpuBackend as Wire>::Bytes;

/// Runs `body` on `n_ranks` ranks of `n_threads` threads each, and gives back what they returned.
///
/// # Errors
/// That of the first rank that failed; threads that the system refuses.
pub(crate) fn run<T: Send>(
    n_ranks: usize,
    n_threads: u32,
    body: impl Fn(&CpuBackend, &mut Threads<Bytes>) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>> {
    run_over(None, n_ranks, n_threads, body)
}

/// As [`run`], over a modelled link where there is one.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_over<T: Send>(
    link: Option<LinkModel>,
    n_ranks: usize,
    n_threads: u32,
    body: impl Fn(&CpuBackend, &mut Threads<Bytes>) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>> {
    // A rank that fails is seen at once; the deadline only has to exceed the longest layer.
    let deadline = Duration::from_secs(3600);
    let options = ThreadOptions { deadline, link, ..ThreadOptions::default() };
    let results = run_ranks(n_ranks, &options, |comm| {
        let backend = CpuBackend::try_new(n_threads as usize).with_context(|| {
            format!("{n_threads} threads a part cannot be started; fewer --threads may help")
        })?;
        body(&backend, comm).map_err(Error::from)
    });
    results.map_err(|error: RankError<Error>| {
        let what = error.to_string();
        match error {
            RankError::Failed { source, .. } => source.context(what),
            RankError::Spawn { source, .. } => {
                Error::from(source).context(what + "; fewer --parts may help")
            }
            _ => Error::msg(what),
        }
    })
}
