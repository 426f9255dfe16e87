//! Ranks as processes, under MPI.

#[cfg(not(feature = "mpi"))]
mod disabled;
#[cfg(feature = "mpi")]
mod enabled;
#[cfg(feature = "mpi")]
mod hosts;
#[cfg(feature = "mpi")]
mod together;

#[cfg(not(feature = "mpi"))]
pub(crate) use disabled::run;
#[cfg(feature = "mpi")]
pub(crate) use enabled::run;
