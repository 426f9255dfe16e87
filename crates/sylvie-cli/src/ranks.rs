//! Ranks as threads of this process.

use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use sylvie::comm::{LinkModel, RankError, ThreadOptions, Threads, run_ranks};
use sylvie::tensor::{CpuBackend, Wire};

use crate::console::counted;

/// Buffers that the CPU backend sends.
pub(crate) type Bytes = <CpuBackend as Wire>::Bytes;

/// What ranks as threads are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankOptions {
    pub(crate) n_ranks: usize,
    /// Threads of each.
    pub(crate) n_threads: u32,
    /// The network that is modelled, if there is one.
    pub(crate) link: Option<LinkModel>,
    /// How long a rank waits for another.
    pub(crate) deadline: Duration,
}

impl RankOptions {
    /// Ranks whose exchange takes no longer than memory does.
    pub(crate) fn new(n_ranks: usize, n_threads: u32) -> Self {
        // A rank that fails is seen at once; the deadline only has to exceed the longest layer.
        Self { n_ranks, n_threads, link: None, deadline: Duration::from_secs(3600) }
    }
}

/// Starts the backend of a rank.
///
/// # Errors
/// Threads that the system refuses.
pub(crate) fn backend(n_threads: u32) -> Result<CpuBackend> {
    CpuBackend::try_new(n_threads as usize).with_context(|| {
        let threads = counted(n_threads, "thread");
        format!("{threads} a part cannot be started; fewer --threads or --parts may help")
    })
}

/// Runs `body` on ranks, and gives back what they returned.
///
/// # Errors
/// That of the first rank that failed; threads that the system refuses.
pub(crate) fn run<T: Send, E: Into<Error>>(
    options: RankOptions,
    body: impl Fn(&CpuBackend, &mut Threads<Bytes>) -> Result<T, E> + Sync,
) -> Result<Vec<T>> {
    run_threads(options, |comm| body(&backend(options.n_threads)?, comm).map_err(Into::into))
}

/// As [`run`], for ranks that bring their own machine.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_threads<T: Send>(
    options: RankOptions,
    body: impl Fn(&mut Threads<Bytes>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let RankOptions { n_ranks, link, deadline, .. } = options;
    let options = ThreadOptions { deadline, link, ..ThreadOptions::default() };
    let results = run_ranks(n_ranks, &options, body);
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
