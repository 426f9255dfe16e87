//! Training runs of several ranks against each other and against their plans.

mod bytes;
mod coordinates;
mod equivalence;
mod failures;
mod fixture;
mod plain_codec;
mod policies;
mod recording;
mod schedules;
