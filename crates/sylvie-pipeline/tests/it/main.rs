//! Training runs of several ranks against each other and against their plans.

mod allocations;
mod bytes;
mod coordinates;
mod equivalence;
mod failures;
mod fixture;
mod halo_rows;
mod plain_codec;
mod policies;
mod recording;
mod resuming;
mod samples;
mod schedules;
mod schedules_page;
mod theorem2;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;
