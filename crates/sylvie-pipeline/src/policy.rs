//! How boundary rows are exchanged.

use std::fmt;
use std::str::FromStr;

use sylvie_lowbit::{RowCodec, Width};
use sylvie_random::Pass;

/// The precision of what crosses the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangePolicy {
    /// Codec of embeddings.
    pub forward: RowCodec,
    /// Codec of gradients.
    pub backward: RowCodec,
}

impl ExchangePolicy {
    /// The same codec both ways.
    #[must_use]
    pub const fn uniform(codec: RowCodec) -> Self {
        Self { forward: codec, backward: codec }
    }

    /// The codec of a pass.
    #[must_use]
    pub const fn codec(&self, pass: Pass) -> RowCodec {
        match pass {
            Pass::Forward => self.forward,
            Pass::Backward => self.backward,
        }
    }
}

/// A policy with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Synchronous, full precision: the baseline.
    Vanilla,
    /// Synchronous, one bit.
    SylvieS,
}

/// A word that names no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset '{word}', expected one of vanilla, sylvie-s")]
pub struct UnknownPreset {
    /// The word found.
    pub word: String,
}

impl Preset {
    /// The policy.
    #[must_use]
    pub fn policy(self) -> ExchangePolicy {
        ExchangePolicy::uniform(RowCodec::new(match self {
            Self::Vanilla => Width::F32,
            Self::SylvieS => Width::One,
        }))
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(word: &str) -> Result<Self, UnknownPreset> {
        match word {
            "vanilla" => Ok(Self::Vanilla),
            "sylvie-s" => Ok(Self::SylvieS),
            _ => Err(UnknownPreset { word: word.to_owned() }),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vanilla => "vanilla",
            Self::SylvieS => "sylvie-s",
        })
    }
}
