//! How many bits a value takes.

use core::fmt;
use core::str::FromStr;

use crate::ParseError;

/// Width of an encoded value.
///
/// # Example
/// ```
/// use sylvie_lowbit::Width;
///
/// let width: Width = "4".parse()?;
/// assert_eq!((width.bits(), width.max_code()), (4, Some(15)));
/// assert_eq!("bf16".parse::<Width>()?.max_code(), None);
/// # Ok::<(), sylvie_lowbit::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// One bit: a row's two ends.
    One,
    /// Two bits, four levels.
    Two,
    /// Four bits, 16 levels.
    Four,
    /// Eight bits, 256 levels.
    Eight,
    /// IEEE half precision, rounded to nearest, ties to even; no metadata, no randomness.
    F16,
    /// The upper half of an `f32`, rounded to nearest, ties to even; no metadata, no randomness.
    Bf16,
    /// As it is; no metadata, no randomness.
    F32,
}

impl Width {
    /// Every width, narrowest first.
    pub const ALL: [Self; 7] =
        [Self::One, Self::Two, Self::Four, Self::Eight, Self::F16, Self::Bf16, Self::F32];

    /// Bits a value takes in the payload.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::F32 => 32,
        }
    }

    /// Whether values are codes between a row's zero point and its highest level.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        matches!(self, Self::One | Self::Two | Self::Four | Self::Eight)
    }

    /// The highest code `B = 2^bits - 1`, for the quantised widths.
    #[must_use]
    pub const fn max_code(self) -> Option<u32> {
        if self.is_quantized() { Some((1 << self.bits()) - 1) } else { None }
    }

    /// The word used in settings and files: `1`, `2`, `4`, `8`, `f16`, `bf16` or `f32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Four => "4",
            Self::Eight => "8",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Width {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|width| width.name() == word)
            .ok_or_else(|| ParseError::Width { given: word.into() })
    }
}
