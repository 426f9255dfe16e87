//! Reading what was written, refusing what was broken, generating what was asked for.

mod allocations;
mod formats;
mod mutations;
mod normalizations;
mod real_sets;
mod refusals;
mod samples;
mod synthetic;
