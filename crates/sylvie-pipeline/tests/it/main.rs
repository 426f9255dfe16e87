//! Training runs of several ranks against each other and against their plans.

mod bytes;
mod coordinates;
mod equivalence;
mod failures;
mod fixture;
mod policies;
mod schedules;
