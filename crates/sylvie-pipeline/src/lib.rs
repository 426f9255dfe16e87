//! Partition-parallel training: the one place where ranks meet tensors.
//!
//! [`train`] runs one rank: it exchanges raw halo features once, then trains epoch by epoch along a
//! [`schedule`](plan_epoch) that is data, exchanging boundary rows at the precision that the
//! [`ExchangePolicy`] says, and evaluates in full precision. It is generic over the backend and the
//! transport, is handed its clock, and writes no file.

mod clock;
mod epoch;
mod error;
mod evaluation;
mod exchange;
mod features;
mod part_data;
mod policy;
mod record;
#[cfg(test)]
mod reference;
mod schedule;
mod settings;
mod train;

pub use clock::Clock;
pub use error::TrainError;
pub use evaluation::{Scores, evaluate, predict};
pub use part_data::{PartData, RankInput};
pub use policy::{ExchangePolicy, Preset, UnknownPreset};
pub use record::{EpochRecord, Observer, ObserverError};
pub use schedule::{Step, plan_epoch, plan_forward};
pub use settings::TrainSettings;
pub use train::{TrainOutcome, train};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
