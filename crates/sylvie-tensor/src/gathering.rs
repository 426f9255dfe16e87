//! How sums over neighbours read the rows that they gather.

use std::fmt;
use std::str::FromStr;

/// Type of the rows that sums over neighbours gather; what is added up is f32 in either case.
///
/// # Example
/// ```
/// use sylvie_tensor::{Backend, CpuBackend, Gather, UnknownGather};
///
/// let gather: Gather = "bf16".parse()?;
/// assert!(CpuBackend::new(1).gathering(gather).is_some());
/// # Ok::<(), UnknownGather>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gather {
    /// As they are.
    #[default]
    F32,
    /// In half of the bytes, with 8 bits of mantissa.
    Bf16,
}

/// No type of gathered rows has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown type of gathered rows `{given}`: allowed are f32 and bf16")]
#[non_exhaustive]
pub struct UnknownGather {
    /// The word.
    pub given: String,
}

impl FromStr for Gather {
    type Err = UnknownGather;

    fn from_str(given: &str) -> Result<Self, UnknownGather> {
        match given {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            _ => Err(UnknownGather { given: given.to_owned() }),
        }
    }
}

impl fmt::Display for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}
