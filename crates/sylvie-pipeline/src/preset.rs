//! Policies with a name.

use std::fmt;
use std::str::FromStr;

use sylvie_lowbit::{RowCodec, Width};

use crate::policy::{ExchangePolicy, Memory, Schedule, Scope, UnknownWord, words};

/// A policy with a name: the systems that the paper compares, and its ablation.
///
/// # Example
/// ```
/// use sylvie_pipeline::{Memory, Preset, Schedule, Scope};
///
/// let preset: Preset = "sylvie-a".parse()?;
/// assert_eq!(preset.policy().schedule, Schedule::Async);
/// assert_eq!(preset.to_string(), "sylvie-a");
/// assert_eq!(Preset::Sar.policy().memory, Memory::Sequential);
/// assert_eq!(Preset::QuantizeAll.policy().scope, Scope::All);
/// # Ok::<(), sylvie_pipeline::UnknownWord>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Synchronous, full precision: the baseline ("DGL" in the paper's tables).
    Vanilla,
    /// Synchronous, one bit.
    SylvieS,
    /// Asynchronous, one bit; with a staleness bound the paper's Bounded Staleness Adaptor.
    SylvieA,
    /// Asynchronous, full precision (Wan et al. 2022).
    PipeGcn,
    /// Full precision, a tenth of the boundary rows in each epoch (Wan et al. 2022).
    BnsGcn,
    /// Full precision, one remote part in memory at a time (Mostafa 2022).
    Sar,
    /// One bit for every row, not only for those that are sent: the paper's Table 4.
    QuantizeAll,
}

words!(
    Preset, "preset",
    "vanilla" => Self::Vanilla, "sylvie-s" => Self::SylvieS, "sylvie-a" => Self::SylvieA,
    "pipegcn" => Self::PipeGcn, "bns-gcn" => Self::BnsGcn, "sar" => Self::Sar,
    "quantize-all" => Self::QuantizeAll
);

impl Preset {
    /// All presets, the baseline first.
    pub const ALL: [Self; 7] = [
        Self::Vanilla,
        Self::SylvieS,
        Self::SylvieA,
        Self::PipeGcn,
        Self::BnsGcn,
        Self::Sar,
        Self::QuantizeAll,
    ];

    /// The policy.
    #[must_use]
    pub fn policy(self) -> ExchangePolicy {
        let full = ExchangePolicy::full_precision();
        let one_bit = ExchangePolicy::uniform(RowCodec::new(Width::One));
        match self {
            Self::Vanilla => full,
            Self::SylvieS => one_bit,
            Self::SylvieA => ExchangePolicy { schedule: Schedule::Async, ..one_bit },
            Self::PipeGcn => ExchangePolicy { schedule: Schedule::Async, ..full },
            Self::BnsGcn => ExchangePolicy { boundary_sampling: Some(0.1), ..full },
            Self::Sar => ExchangePolicy { memory: Memory::Sequential, ..full },
            Self::QuantizeAll => ExchangePolicy { scope: Scope::All, ..one_bit },
        }
    }
}
