//! Partition-parallel training: the one place where ranks meet tensors.
//!
//! [`train`] runs one rank: it exchanges raw halo features once, then trains epoch by epoch along a
//! [`schedule`](plan_epoch) that is data, exchanging boundary rows at the precision that the
//! [`ExchangePolicy`] says, and evaluates in full precision. It is generic over the backend and the
//! transport, is handed its clock, and writes no file.

mod communication;
mod error;
mod evaluation;
mod features;
mod flow;
mod instruments;
mod pace;
mod part_data;
mod policy;
mod preset;
mod record;
#[cfg(test)]
mod reference;
mod sample;
mod schedule;
mod settings;
mod slots;
mod stage;
mod state;
mod train;

pub use error::TrainError;
pub use evaluation::{Prediction, Scores, evaluate, predict};
pub use instruments::{Activity, Clock, Instruments, Lane, Span, Tracer};
pub use part_data::{PartData, RankInput};
pub use policy::{
    Directions, ExchangePolicy, HaloRows, Memory, PolicyError, Schedule, Scope, UnknownWord,
};
pub use preset::Preset;
pub use record::{EpochRecord, Observer, ObserverError, RankTimes};
pub use schedule::{AfterUse, Parts, Stage, Step, plan_epoch, plan_forward};
pub use settings::TrainSettings;
pub use state::{BestModel, CheckpointSink, HaloState, HostRows, KeptRows, RankState, SharedState};
pub use train::{Checkpoints, End, TrainOutcome, train, train_with_checkpoints};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
