//! The levels of one row: where they lie, and which two of them a value lies between.

use crate::{EncodeError, MetadataType};

/// Zero point and scale of one row. Code `k` stands for `fl32(zero + fl32(k * scale))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Levels {
    pub(crate) zero: f32,
    pub(crate) scale: f32,
}

impl Levels {
    /// The levels 0 to `max_code` that enclose every value of `row`, as tightly as `metadata` can say.
    ///
    /// The zero point is the largest value of the type that is at most the minimum; the scale is the
    /// smallest non-negative one that lifts level `max_code` to the maximum. A row without columns has
    /// zero point and scale 0.
    ///
    /// # Errors
    /// As [`crate::RowCodec::encode_rows`], naming row `row_idx`.
    pub(crate) fn enclose(
        row: &[f32],
        row_idx: usize,
        max_code: u32,
        metadata: MetadataType,
    ) -> Result<Self, EncodeError> {
        if row.is_empty() {
            return Ok(Self { zero: 0.0, scale: 0.0 });
        }
        let (min, max) =
            finite_range(row).map_err(|column| EncodeError::NotFinite { row: row_idx, column })?;
        Self::from_range(min, max, row_idx, max_code, metadata)
    }

    /// [`Self::enclose`] for a row whose minimum and maximum are known.
    ///
    /// # Errors
    /// As [`Self::enclose`], less what a minimum and a maximum cannot show.
    #[inline]
    pub(crate) fn from_range(
        min: f32,
        max: f32,
        row_idx: usize,
        max_code: u32,
        metadata: MetadataType,
    ) -> Result<Self, EncodeError> {
        let zero = metadata.largest_at_most(min);
        if zero.is_infinite() {
            return Err(EncodeError::MetadataOverflow { row: row_idx, metadata });
        }
        if (max - min).is_infinite() {
            return Err(EncodeError::RangeOverflow { row: row_idx });
        }
        let guess = (max - zero) * (1.0 / max_code as f32);
        let reaches_max = |scale| Self { zero, scale }.value(max_code) >= max;
        let scale = metadata.smallest_accepted(guess, reaches_max);
        if scale.is_infinite() {
            return Err(EncodeError::MetadataOverflow { row: row_idx, metadata });
        }
        let levels = Self { zero, scale };
        if levels.value(max_code).is_infinite() {
            return Err(EncodeError::RangeOverflow { row: row_idx });
        }
        Ok(levels)
    }

    /// What `code` stands for: one multiplication and one addition, each rounded to `f32`.
    #[inline]
    pub(crate) fn value(self, code: u32) -> f32 {
        self.zero + code as f32 * self.scale
    }

    /// Whether every code up to `max_code` stands for a finite value, in ascending order.
    pub(crate) fn are_valid(self, max_code: u32) -> bool {
        self.zero.is_finite() && self.scale >= 0.0 && self.value(max_code).is_finite()
    }

    /// The two levels around a value of the row: the largest code whose level is at most `value`, and
    /// the one above it. At the highest level the code is `max_code`, and `above` is no level.
    ///
    /// `reciprocal` is 1 / scale, for a first guess that exact comparisons then correct: by one step
    /// as a rule, by more only where rounding makes neighbouring levels equal.
    #[inline]
    pub(crate) fn bracket(self, value: f32, reciprocal: f64, max_code: u32) -> Bracket {
        // The cast saturates, and makes 0 of the NaN of a zero scale.
        let guess = (f64::from(value) - f64::from(self.zero)) * reciprocal;
        let mut code = (guess as u32).min(max_code);
        let (mut below, mut above) = (self.value(code), self.value(code + 1));
        // Ends at 0, whose level is at most every value of the row.
        while below > value {
            code -= 1;
            (below, above) = (self.value(code), below);
        }
        while above <= value && code < max_code {
            code += 1;
            (below, above) = (above, self.value(code + 1));
        }
        Bracket { code, below, above }
    }

    /// Rounds a value of the row to one of the two levels around it: up if the 24 random bits
    /// `byte << 16 | tie()`, added to the value's position between the two as a fraction of the step,
    /// reach the upper one. A uniform fraction thus gives `value` on average.
    ///
    /// `tie` is called only where `byte` leaves the matter open. The probability of rounding up is a
    /// multiple of 2^-24, at most 2^-24 below the exact one. A value that is a level is never moved.
    #[inline]
    pub(crate) fn round(
        self,
        value: f32,
        reciprocal: f64,
        max_code: u32,
        byte: u8,
        tie: impl FnOnce() -> u16,
    ) -> u32 {
        let bracket = self.choices(value, reciprocal, max_code);
        let (least, most) = (u32::from(byte) << 16, u32::from(byte) << 16 | 0xffff);
        let rounds_up = bracket.reaches(value, least)
            || (bracket.reaches(value, most) && bracket.reaches(value, least | u32::from(tie())));
        bracket.code + u32::from(rounds_up)
    }

    /// [`Self::round`] where all 24 random bits are known: without a branch on what nobody can foresee.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn round_by(self, value: f32, max_code: u32, fraction: u32) -> u32 {
        let reciprocal = if max_code == 1 { 0.0 } else { 1.0 / f64::from(self.scale) };
        let bracket = self.choices(value, reciprocal, max_code);
        bracket.code + u32::from(bracket.reaches(value, fraction))
    }

    /// The two levels to choose from for a value of the row.
    #[inline]
    fn choices(self, value: f32, reciprocal: f64, max_code: u32) -> Bracket {
        if max_code == 1 {
            // There is one pair to choose from, without a search. The search would only find 1 for the
            // upper level itself, and that one is rounded up from 0 by every draw.
            Bracket { code: 0, below: self.value(0), above: self.value(1) }
        } else {
            self.bracket(value, reciprocal, max_code)
        }
    }
}

/// A code, its level, and the level above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bracket {
    pub(crate) code: u32,
    pub(crate) below: f32,
    pub(crate) above: f32,
}

impl Bracket {
    /// Whether 24 random bits lift `value` from its place between the two levels to the upper one. A value
    /// that is the lower level stays.
    #[inline]
    fn reaches(self, value: f32, fraction: u32) -> bool {
        // In f64 because neither product may underflow or overflow, and to spare a division.
        let step = f64::from(self.above) - f64::from(self.below);
        let missing = (f64::from(self.above) - f64::from(value)) * TWO_POW_24;
        (self.below != value) & (f64::from(fraction) * step >= missing)
    }
}

const TWO_POW_24: f64 = 16_777_216.0;

/// Minimum and maximum of a row, or the first column that holds a NaN or an infinity.
fn finite_range(row: &[f32]) -> Result<(f32, f32), usize> {
    const N_LANES: usize = 8;
    const INFINITY: u32 = 0x7f80_0000;

    let mut min = [f32::INFINITY; N_LANES];
    let mut max = [f32::NEG_INFINITY; N_LANES];
    let mut magnitude = [0; N_LANES];
    let mut take = |(lane, &value): (usize, &f32)| {
        min[lane] = if value < min[lane] { value } else { min[lane] };
        max[lane] = if value > max[lane] { value } else { max[lane] };
        magnitude[lane] = magnitude[lane].max(value.to_bits() & !(1 << 31));
    };
    // Lanes are independent, so that a compiler may take them in one instruction.
    let (chunks, rest) = row.as_chunks::<N_LANES>();
    for chunk in chunks {
        chunk.iter().enumerate().for_each(&mut take);
    }
    rest.iter().enumerate().for_each(take);
    if magnitude.into_iter().any(|magnitude| magnitude >= INFINITY) {
        let column = row.iter().position(|value| !value.is_finite());
        return Err(column.expect("a magnitude of at least infinity is a NaN or an infinity"));
    }
    let min = min.into_iter().fold(f32::INFINITY, f32::min);
    let max = max.into_iter().fold(f32::NEG_INFINITY, f32::max);
    Ok((min, max))
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Levels, TWO_POW_24, finite_range};
    use crate::MetadataType;

    /// The number of 24-bit fractions that round `value` up, by bisection: `round` is monotone.
    fn n_fractions_up(levels: Levels, value: f32, max_code: u32, base: u32) -> u32 {
        let reciprocal = 1.0 / f64::from(levels.scale);
        let (mut low, mut high) = (0_u32, 1 << 24);
        while low < high {
            let middle = low + (high - low) / 2;
            let (byte, tie) = ((middle >> 16) as u8, middle as u16);
            if levels.round(value, reciprocal, max_code, byte, || tie) > base {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        (1 << 24) - low
    }

    /// Finite values of every size, signs and zeros of both kinds, and neighbours of each other.
    fn any_row() -> impl Strategy<Value = Vec<f32>> {
        let wild = any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |v| v.is_finite());
        let near = (any::<u32>(), 0_u32..2000)
            .prop_map(|(base, step)| f32::from_bits((base & 0xbf00_0000 | 0x0012_3456) + step));
        let base = 0x4f00_0000_u32..0x4f00_0040;
        prop_oneof![
            prop::collection::vec(wild.prop_map(|v| v / 4.0), 1..9),
            prop::collection::vec(near, 1..2).prop_flat_map(|v| {
                let bits = v[0].to_bits();
                prop::collection::vec((bits..bits + 40).prop_map(f32::from_bits), 1..9)
            }),
            prop::collection::vec(base.prop_map(f32::from_bits), 1..9),
            prop::collection::vec((0_u32..500).prop_map(f32::from_bits), 1..9),
            prop::collection::vec(-1.0_f32..1.0, 1..9),
            prop::collection::vec(prop_oneof![Just(0.0_f32), Just(-0.0), 0.0_f32..2.0], 1..9),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Unbiasedness and variance without a statistical doubt: the probability of rounding up is
        /// counted, and the expected value and the variance follow from it.
        #[test]
        fn rounding_is_unbiased(row in any_row(), bits in prop::sample::select(vec![1, 2, 4, 8]),
                                metadata in prop::sample::select(&MetadataType::ALL[..])) {
            let max_code = (1_u32 << bits) - 1;
            let Ok(levels) = Levels::enclose(&row, 0, max_code, metadata) else { return Ok(()) };
            let reciprocal = 1.0 / f64::from(levels.scale);
            for &value in &row {
                // By trying every code, not by a guess.
                let base = (0..=max_code).rev().find(|&k| levels.value(k) <= value);
                let base = base.expect("level 0 is at most the minimum");
                prop_assert_eq!(levels.bracket(value, reciprocal, max_code).code, base);
                let low = f64::from(levels.value(base));
                if base == max_code {
                    prop_assert_eq!(levels.value(base), value);
                    continue;
                }
                let step = f64::from(levels.value(base + 1)) - low;
                let offset = f64::from(value) - low;
                // Equal only where f64 cannot tell the value from the level above it.
                prop_assert!(step > 0.0 && (0.0..=step).contains(&offset));
                let up = f64::from(n_fractions_up(levels, value, max_code, base)) / TWO_POW_24;
                // The products of the rule are rounded to 53 bits; 24 are left of the result.
                let slack = step * (1.000_001 / TWO_POW_24);
                let missed = offset - step * up;
                prop_assert!(missed >= -1e-6 * slack && missed <= slack, "{step} {up} {offset}");
                let variance = step * step * up * (1.0 - up);
                prop_assert!((variance - offset * (step - offset)).abs() <= step * slack);
            }
        }

        /// The zero point cannot be larger and the scale cannot be smaller.
        #[test]
        fn levels_are_as_tight_as_the_metadata_allows(
            row in any_row(),
            bits in prop::sample::select(vec![1, 2, 4, 8]),
            metadata in prop::sample::select(&MetadataType::ALL[..]),
        ) {
            let max_code = (1_u32 << bits) - 1;
            let Ok(levels) = Levels::enclose(&row, 0, max_code, metadata) else { return Ok(()) };
            let min = row.iter().copied().fold(f32::INFINITY, f32::min);
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(levels.are_valid(max_code));
            prop_assert!(levels.zero <= min && levels.value(max_code) >= max);
            // Two zero points of the type cannot both lie between `zero` and `min`.
            prop_assert_eq!(metadata.largest_at_most(min), levels.zero);
            if levels.scale > 0.0 {
                let smaller = metadata.largest_at_most(levels.scale.next_down());
                prop_assert!(smaller < levels.scale);
                let top = Levels { scale: smaller, ..levels }.value(max_code);
                prop_assert!(top < max, "{} with {:e} reaches {:e}", levels.zero, smaller, top);
            }
        }
    }

    #[test]
    fn the_range_is_found_in_every_position() {
        for n_cols in 1..40 {
            for at in 0..n_cols {
                let mut row = vec![1.0; n_cols];
                row[at] = 3.0;
                assert_eq!(finite_range(&row), Ok((if n_cols == 1 { 3.0 } else { 1.0 }, 3.0)));
                row[at] = -3.0;
                assert_eq!(finite_range(&row), Ok((-3.0, if n_cols == 1 { -3.0 } else { 1.0 })));
                for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    row[at] = wrong;
                    assert_eq!(finite_range(&row), Err(at));
                }
            }
        }
    }
}
