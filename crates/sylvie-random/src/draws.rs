//! Uniform numbers from random words, and a sequential reader for set-up work.

use crate::coordinates::Family;

/// Uniform in [0, 1) with 24 bits: every value is a multiple of 2^-24, exactly representable.
///
/// # Example
/// ```
/// use sylvie_random::unit_f32;
///
/// assert_eq!((unit_f32(0), unit_f32(1 << 31)), (0.0, 0.5));
/// assert!(unit_f32(u32::MAX) < 1.0);
/// ```
#[inline]
#[must_use]
pub const fn unit_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Uniform in [0, 1) with 53 bits from two words.
///
/// # Example
/// ```
/// use sylvie_random::unit_f64;
///
/// assert_eq!((unit_f64(0, 0), unit_f64(1 << 31, 0)), (0.0, 0.5));
/// assert!(unit_f64(u32::MAX, u32::MAX) < 1.0);
/// ```
#[inline]
#[must_use]
pub const fn unit_f64(high: u32, low: u32) -> f64 {
    let bits = ((high as u64) << 32 | low as u64) >> 11;
    bits as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// The words of one node of a family, one after the other, for work that is sequential anyway:
/// shuffles, splits, generated graphs.
///
/// # Example
/// ```
/// use sylvie_random::{Coordinates, Sequence, Stream};
///
/// let family = Coordinates::new(1, Stream::Split).family();
/// let mut sequence = Sequence::new(family, 0);
/// assert!(sequence.below(6) < 6);
/// assert!((0.0..1.0).contains(&sequence.next_f64()));
/// let mut order = [0, 1, 2, 3, 4];
/// sequence.shuffle(&mut order);
/// order.sort_unstable();
/// assert_eq!(order, [0, 1, 2, 3, 4]);
/// // The same family and node, the same words.
/// let [mut one, mut other] = [Sequence::new(family, 1), Sequence::new(family, 1)];
/// assert_eq!(one.next_u32(), other.next_u32());
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    family: Family,
    node: u32,
    column_block: u32,
    words: [u32; 4],
    n_used: usize,
}

impl Sequence {
    /// Starts at the first word of `node`.
    #[must_use]
    pub const fn new(family: Family, node: u32) -> Self {
        Self { family, node, column_block: 0, words: [0; 4], n_used: 4 }
    }

    /// The next 32 random bits. The sequence repeats after 2^34 words.
    pub fn next_u32(&mut self) -> u32 {
        if self.n_used == 4 {
            self.words = self.family.block(self.node, self.column_block);
            self.column_block = self.column_block.wrapping_add(1);
            self.n_used = 0;
        }
        self.n_used += 1;
        self.words[self.n_used - 1]
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn next_f64(&mut self) -> f64 {
        let high = self.next_u32();
        unit_f64(high, self.next_u32())
    }

    /// Uniform in `0..bound`, exactly (Lemire's method with rejection).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "an empty range has no element to draw");
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(bound);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// Permutes `items` uniformly (Fisher and Yates).
    ///
    /// # Panics
    /// If there are more than `u32::MAX` items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let n_items = u32::try_from(items.len()).expect("at most u32::MAX items to shuffle");
        for last in (1..n_items).rev() {
            items.swap(last as usize, self.below(last + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sequence, unit_f32, unit_f64};
    use crate::{Coordinates, Stream};

    #[test]
    fn unit_numbers_stay_below_one() {
        assert_eq!(unit_f32(0), 0.0);
        assert!(unit_f32(u32::MAX) < 1.0);
        assert!(unit_f64(u32::MAX, u32::MAX) < 1.0);
    }

    #[test]
    fn below_is_uniform() {
        let mut sequence = Sequence::new(Coordinates::new(3, Stream::Split).family(), 0);
        let mut counts = [0_u32; 6];
        let n_draws = 60_000;
        for _ in 0..n_draws {
            counts[sequence.below(6) as usize] += 1;
        }
        // Chi-squared with 5 degrees of freedom passes 40 with probability 1.5e-7.
        let expected = f64::from(n_draws) / 6.0;
        let chi2: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        assert!(chi2 < 40.0, "{counts:?}");
    }
}
