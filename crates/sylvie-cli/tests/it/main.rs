//! The program, run as its users run it.

mod checkpoints;
mod commands;
mod converting;
#[cfg(target_os = "linux")]
mod devices;
mod exchange;
mod files;
mod partitioned;
mod policies;
#[cfg(all(feature = "mpi", target_os = "linux"))]
mod processes;
mod program;
mod refusals;
mod repeating;
mod reporting;
mod run_folder;
mod traces;
mod trained;
