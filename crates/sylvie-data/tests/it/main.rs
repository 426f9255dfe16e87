//! Reading what was written, refusing what was broken, generating what was asked for.

mod allocations;
mod bodies;
mod formats;
mod mutations;
mod normalizations;
mod planetoid;
mod real_sets;
mod refusals;
mod round_trips;
mod samples;
mod samples_pickle;
mod samples_text;
mod split_rules;
mod synthetic;
mod text_formats;
mod truncations;
