//! The type that carries a row's zero point and scale, and rounding to it in a given direction.

use core::fmt;
use core::str::FromStr;

use half::{bf16, f16};

use crate::ParseError;
use crate::levels::Levels;

/// Floating-point type of the zero point and the scale.
///
/// # Example
/// ```
/// use sylvie_lowbit::{MetadataType, ParseError, RowCodec, Width};
///
/// let metadata: MetadataType = "f16".parse()?;
/// let codec = RowCodec { width: Width::One, metadata };
/// assert_eq!((metadata.bytes(), codec.row_metadata_bytes()), (2, 4)); // zero point and scale
/// assert_eq!(MetadataType::default().name(), "bf16");
/// # Ok::<(), ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetadataType {
    /// 4 bytes each, exact zero points.
    F32,
    /// 2 bytes each, the exponents of `f32`, 8 significant bits.
    #[default]
    Bf16,
    /// 2 bytes each, 11 significant bits, magnitudes up to 65504; subnormal below 6.1e-5.
    F16,
}

impl MetadataType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Bytes of one value; a row has two.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// The word used in settings and files: `f32`, `bf16` or `f16`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// The largest value of this type that is at most `x`: negative infinity when there is no finite one.
    ///
    /// Zero comes back as +0, so that a row's bytes do not depend on the signs of its zeros.
    #[inline]
    pub(crate) fn largest_at_most(self, x: f32) -> f32 {
        debug_assert!(x.is_finite());
        match self {
            Self::F32 => return x + 0.0,
            Self::Bf16 => {
                // Cut off below 16 bits, which goes towards 0, and so one further where `x` is negative.
                let bits = x.to_bits();
                let below = u32::from(x < 0.0 && bits & 0xffff != 0) << 16;
                return f32::from_bits((bits & 0xffff_0000) + below) + 0.0;
            }
            Self::F16 => {}
        }
        // Rounding to nearest is the wanted value or the one above it.
        let nearest = self.round_to_nearest(x);
        let wanted = if self.value(nearest) > x { self.next_down(nearest) } else { nearest };
        // +0 for -0; every other value stays.
        self.value(wanted) + 0.0
    }

    /// The smallest value of this type that is at least 0 and that `accepts`; infinity when no finite
    /// one is accepted.
    ///
    /// `accepts` must be monotone: what it says of a value it says of every larger one. A `guess` near
    /// the result, at least 0, spares the search.
    #[inline]
    pub(crate) fn smallest_accepted(self, guess: f32, accepts: impl Fn(f32) -> bool) -> f32 {
        // The patterns of values from +0 to infinity ascend with the values.
        let near = self.round_to_nearest(guess).clamp(1, self.infinity() - 1);
        for pattern in [near, near + 1] {
            if accepts(self.value(pattern)) && !accepts(self.value(pattern - 1)) {
                return self.value(pattern);
            }
        }
        self.search_smallest_accepted(accepts)
    }

    /// [`Self::smallest_accepted`] by bisection.
    #[cold]
    fn search_smallest_accepted(self, accepts: impl Fn(f32) -> bool) -> f32 {
        let (mut low, mut high) = (0, self.infinity());
        while low < high {
            let middle = low + (high - low) / 2;
            if accepts(self.value(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.value(high)
    }

    /// Writes the zero point and the scale of a row, which this type holds exactly.
    #[inline]
    pub(crate) fn write_pair(self, levels: Levels, bytes: &mut [u8]) {
        let (zero, scale) = bytes.split_at_mut(self.bytes());
        self.write(levels.zero, zero);
        self.write(levels.scale, scale);
    }

    /// Writes a value that this type holds exactly, little-endian.
    #[inline]
    fn write(self, value: f32, bytes: &mut [u8]) {
        let pattern = match self {
            Self::Bf16 => value.to_bits() >> 16,
            Self::F32 | Self::F16 => self.round_to_nearest(value),
        };
        debug_assert_eq!(self.value(pattern).to_bits(), value.to_bits());
        // Arms of a fixed length, which cost a store each and no call.
        match bytes {
            [a, b] => [*a, *b] = (pattern as u16).to_le_bytes(),
            [a, b, c, d] => [*a, *b, *c, *d] = pattern.to_le_bytes(),
            _ => panic!("{} bytes for a number of {}", bytes.len(), self.bytes()),
        }
    }

    /// Reads what [`Self::write`] wrote.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8]) -> f32 {
        match *bytes {
            [a, b] => self.value(u32::from(u16::from_le_bytes([a, b]))),
            [a, b, c, d] => self.value(u32::from_le_bytes([a, b, c, d])),
            _ => panic!("{} bytes for a number of {}", bytes.len(), self.bytes()),
        }
    }

    /// The value of a bit pattern.
    #[inline]
    fn value(self, pattern: u32) -> f32 {
        match self {
            Self::F32 => f32::from_bits(pattern),
            Self::Bf16 => bf16::from_bits(pattern as u16).to_f32(),
            Self::F16 => f16::from_bits(pattern as u16).to_f32(),
        }
    }

    /// The bit pattern nearest to `x`, ties to even.
    #[inline(always)]
    fn round_to_nearest(self, x: f32) -> u32 {
        match self {
            Self::F32 => x.to_bits(),
            Self::Bf16 => u32::from(bf16::from_f32(x).to_bits()),
            Self::F16 => f16_nearest(x),
        }
    }

    /// The bit pattern of positive infinity.
    const fn infinity(self) -> u32 {
        match self {
            Self::F32 => 0x7f80_0000,
            Self::Bf16 => 0x7f80,
            Self::F16 => 0x7c00,
        }
    }

    /// The bit pattern of the next smaller value; not for NaN and negative infinity.
    const fn next_down(self, pattern: u32) -> u32 {
        let sign = 1 << (8 * self.bytes() - 1);
        if pattern & !sign == 0 {
            sign | 1
        } else if pattern & sign == 0 {
            pattern - 1
        } else {
            pattern + 1
        }
    }
}

/// Apart, so that the other types need not carry its length with them.
#[inline(never)]
fn f16_nearest(x: f32) -> u32 {
    u32::from(f16::from_f32(x).to_bits())
}

impl fmt::Display for MetadataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MetadataType {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|metadata| metadata.name() == word)
            .ok_or_else(|| ParseError::MetadataType { given: word.into() })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::MetadataType;

    const HALVES: [MetadataType; 2] = [MetadataType::Bf16, MetadataType::F16];

    /// Every finite value and negative infinity of a half-precision type, without -0.
    fn values(metadata: MetadataType) -> Vec<f32> {
        (0..=u16::MAX)
            .filter(|&pattern| pattern != 0x8000)
            .map(|pattern| metadata.value(u32::from(pattern)))
            .filter(|value| value.is_finite() || *value == f32::NEG_INFINITY)
            .collect()
    }

    fn brute_force_largest_at_most(values: &[f32], x: f32) -> f32 {
        values.iter().copied().filter(|&value| value <= x).fold(f32::NEG_INFINITY, f32::max)
    }

    #[test]
    fn largest_at_most_agrees_with_every_value_tried() {
        let mut probes = Vec::from([0.0, -0.0, f32::MAX, f32::MIN, 65504.0, 65519.9, 65520.0]);
        probes.extend([-65504.0, -65504.004, -65520.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE]);
        probes.extend([f32::from_bits(1), -f32::from_bits(1), 1e-7, -1e-7, 5.97e-8, -5.97e-8]);
        probes.extend([1e30, -1e30, 1.0, 1.000_000_1, 0.999_999_9, -1.000_000_1, -0.999_999_9]);
        for metadata in HALVES {
            let values = values(metadata);
            for &x in &probes {
                let expected = brute_force_largest_at_most(&values, x);
                assert_eq!(metadata.largest_at_most(x), expected, "{metadata} {x:e}");
            }
        }
    }

    #[test]
    fn values_of_a_type_are_their_own_floor_and_zero_is_positive() {
        for metadata in HALVES {
            for value in values(metadata).into_iter().filter(|value| value.is_finite()) {
                assert_eq!(metadata.largest_at_most(value).to_bits(), value.to_bits());
            }
        }
        for metadata in MetadataType::ALL {
            assert_eq!(metadata.largest_at_most(-0.0).to_bits(), 0);
        }
    }

    #[test]
    fn smallest_accepted_finds_every_threshold() {
        for metadata in HALVES {
            for pattern in 0..=metadata.infinity() {
                let threshold = metadata.value(pattern);
                let value = if threshold.is_finite() { threshold } else { 1e30 };
                for guess in [0.0, value, value * 1.003, value * 0.5, 1.0, 65504.0] {
                    let found = metadata.smallest_accepted(guess, |value| value >= threshold);
                    assert_eq!(found, threshold, "{metadata} guessed {guess:e}");
                }
            }
            assert_eq!(metadata.smallest_accepted(1.0, |_| false), f32::INFINITY);
        }
    }

    proptest! {
        #[test]
        fn largest_at_most_is_a_floor(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            prop_assume!(x.is_finite());
            prop_assert_eq!(MetadataType::F32.largest_at_most(x), x);
            for metadata in HALVES {
                let floor = metadata.largest_at_most(x);
                prop_assert!(floor <= x);
                let pattern = metadata.round_to_nearest(floor);
                prop_assert_eq!(metadata.value(pattern).to_bits(), floor.to_bits());
                // One pattern up is a value above `x`.
                let up = match floor {
                    0.0 => 1,
                    f if f > 0.0 => pattern + 1,
                    _ => pattern - 1,
                };
                prop_assert!(metadata.value(up) > x);
            }
        }

        #[test]
        fn smallest_accepted_finds_thresholds_of_f32(
            bits in 0_u32..=0x7f80_0000,
            guess in 0.0_f32..1e38,
        ) {
            let threshold = f32::from_bits(bits);
            let found = MetadataType::F32.smallest_accepted(guess, |value| value >= threshold);
            prop_assert_eq!(found, threshold);
        }
    }
}
