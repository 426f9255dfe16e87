//! Ranks as processes, under MPI.

#[cfg(not(feature = "mpi"))]
mod disabled;
#[cfg(feature = "mpi")]
mod enabled;
#[cfg(feature = "mpi")]
mod hosts;
#[cfg(feature = "mpi")]
mod shared;
#[cfg(feature = "mpi")]
mod together;
#[cfg(feature = "mpi")]
mod traces;

#[cfg(not(feature = "mpi"))]
pub(crate) use disabled::run;
#[cfg(feature = "mpi")]
pub(crate) use enabled::run;
