//! Levels of eight rows at once, and where on them a value lies.

use core::arch::x86_64::*;

use super::levels::ROWS;
use super::range::Ranges;
use crate::levels::Levels;
use crate::{EncodeError, MetadataType};

/// `D p + 2^EXTRA + slack` as a function of the value: `value * factor + offset`, fused.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) factor: f32,
    pub(super) offset: f32,
}

/// By less than how many units of `1 / D` a position is off. At 16 bits below the code, `f32` cannot say
/// it more exactly.
pub(super) const fn slack<const EXTRA: i32>() -> i32 {
    if EXTRA == 8 { 16 } else { 1 }
}

/// The largest `factor * M` for which that holds.
const fn most<const EXTRA: i32>() -> f32 {
    (slack::<EXTRA>() << 20) as f32
}

/// What is added to every position.
const fn shift<const EXTRA: i32>() -> f32 {
    ((1 << EXTRA) + slack::<EXTRA>()) as f32
}

const FINEST: f32 = f32::from_bits((127 - 100) << 23);
const COARSEST: f32 = f32::from_bits((127 + 100) << 23);

impl Position {
    /// The function for these levels, where it is off by less than [`slack`] at every value between the
    /// lowest and the highest.
    ///
    /// Let `M` be the larger magnitude of those two, `e = 2^-24`. The factor is off by `e` of itself,
    /// which moves the result by at most `e * factor * 2 M`; the offset is rounded twice, by at most
    /// `e * factor * M` and `e * (factor * M + 272)`; the result once, by at most
    /// `e * (factor * 2 M + 272)`. Levels lie within `e * 3 M` of where exact arithmetic has them.
    /// Together that is below `e * 9.1 * factor * M`, and `factor * M` is at most `slack * 2^20`.
    #[inline]
    pub(super) fn new<const EXTRA: i32>(levels: Levels, max_code: u32) -> Option<Self> {
        let factor = (256 << EXTRA) as f32 / levels.scale;
        let magnitude = levels.zero.abs().max(levels.value(max_code).abs());
        let is_close = levels.scale >= FINEST
            && levels.scale <= COARSEST
            && factor * magnitude <= most::<EXTRA>();
        let offset = shift::<EXTRA>() - levels.zero * factor;
        is_close.then_some(Self { factor, offset })
    }
}

/// Levels and positions of up to eight rows.
pub(super) struct Fitted {
    zeros: [f32; ROWS],
    scales: [f32; ROWS],
    factors: [f32; ROWS],
    offsets: [f32; ROWS],
    /// Bit `i` for row `i`, if what stands here is what [`Levels::from_range`] and [`Position::new`] give
    /// for it. Of other rows nothing is known, not even that they can be encoded.
    is_fitted: u32,
    ranges: Ranges,
}

impl Fitted {
    /// Levels 0 to `max_code` for rows with these ranges.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn new<const EXTRA: i32>(
        ranges: Ranges,
        max_code: u32,
        metadata: MetadataType,
    ) -> Self {
        let (dropped_bits, is_cut) = match metadata {
            MetadataType::F32 => (0, true),
            MetadataType::Bf16 => (16, true),
            MetadataType::F16 => (0, false),
        };
        let Ranges { min, max, finite } = ranges;
        let top_code = _mm256_set1_ps(max_code as f32);
        let zero = largest_at_most(min, dropped_bits);
        let top = |scale| _mm256_add_ps(zero, _mm256_mul_ps(top_code, scale));
        let guess = _mm256_mul_ps(_mm256_sub_ps(max, zero), _mm256_set1_ps(1.0 / max_code as f32));
        let [below, near, above] = neighbours(guess, dropped_bits);
        let reaches = |scale| _mm256_cmp_ps::<_CMP_GE_OQ>(top(scale), max);
        let (near_reaches, above_reaches) = (reaches(near), reaches(above));
        let is_near = _mm256_andnot_ps(reaches(below), near_reaches);
        let is_above = _mm256_andnot_ps(near_reaches, above_reaches);
        let scale = _mm256_blendv_ps(above, near, is_near);

        let factor = _mm256_div_ps(_mm256_set1_ps((256 << EXTRA) as f32), scale);
        let magnitude = _mm256_max_ps(absolute(zero), absolute(top(scale)));
        let offset = _mm256_sub_ps(_mm256_set1_ps(shift::<EXTRA>()), _mm256_mul_ps(zero, factor));
        let at_most = |a, b| _mm256_cmp_ps::<_CMP_LE_OQ>(a, _mm256_set1_ps(b));
        // Not true of a NaN either; and where all is true, the zero point and the highest level are finite.
        let is_close = at_most(_mm256_mul_ps(factor, magnitude), most::<EXTRA>());
        let is_sane = _mm256_and_ps(
            _mm256_and_ps(at_most(absolute(_mm256_sub_ps(max, min)), f32::MAX), finite),
            _mm256_and_ps(
                at_most(scale, COARSEST),
                _mm256_cmp_ps::<_CMP_GE_OQ>(scale, _mm256_set1_ps(FINEST)),
            ),
        );
        let is_found = _mm256_or_ps(is_near, is_above);
        let is_fitted = _mm256_and_ps(_mm256_and_ps(is_close, is_sane), is_found);
        Self {
            zeros: array(zero),
            scales: array(scale),
            factors: array(factor),
            offsets: array(offset),
            is_fitted: if is_cut { _mm256_movemask_ps(is_fitted) as u32 } else { 0 },
            ranges,
        }
    }

    /// The levels of a row, and the position of its values, if those were found here.
    #[inline]
    pub(super) fn row(&self, idx: usize) -> Option<(Levels, Position)> {
        let levels = Levels { zero: self.zeros[idx], scale: self.scales[idx] };
        let position = Position { factor: self.factors[idx], offset: self.offsets[idx] };
        (self.is_fitted >> idx & 1 == 1).then_some((levels, position))
    }

    /// The levels of row `idx`, which has the values `row`, if they were not found here.
    ///
    /// # Errors
    /// As [`Levels::enclose`], naming row `row_idx`.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn levels(
        &self,
        idx: usize,
        row: &[f32],
        row_idx: usize,
        max_code: u32,
        metadata: MetadataType,
    ) -> Result<Levels, EncodeError> {
        if _mm256_movemask_ps(self.ranges.finite) >> idx & 1 == 0 {
            return Levels::enclose(row, row_idx, max_code, metadata);
        }
        let (min, max) = (array(self.ranges.min)[idx], array(self.ranges.max)[idx]);
        Levels::from_range(min, max, row_idx, max_code, metadata)
    }
}

/// [`MetadataType::largest_at_most`] for types that are an `f32` without its last bits.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn largest_at_most(values: __m256, dropped_bits: u32) -> __m256 {
    let bits = _mm256_castps_si256(values);
    let dropped = _mm256_set1_epi32((1 << dropped_bits) - 1);
    let step = _mm256_set1_epi32(1 << dropped_bits);
    // Cutting goes towards 0, and so one further where the value is negative.
    let is_exact = _mm256_cmpeq_epi32(_mm256_and_si256(bits, dropped), _mm256_setzero_si256());
    let is_positive = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GE_OQ>(values, _mm256_setzero_ps()));
    let further = _mm256_andnot_si256(_mm256_or_si256(is_exact, is_positive), step);
    let cut = _mm256_add_epi32(_mm256_andnot_si256(dropped, bits), further);
    // +0 for -0.
    _mm256_add_ps(_mm256_castsi256_ps(cut), _mm256_setzero_ps())
}

/// The value nearest to `guess` of those without the last bits, at least the smallest above 0, and the
/// ones below and above it. Of a guess that is negative or no number, anything.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn neighbours(guess: __m256, dropped_bits: u32) -> [__m256; 3] {
    let bits = _mm256_castps_si256(guess);
    let step = _mm256_set1_epi32(1 << dropped_bits);
    let near = if dropped_bits == 0 {
        bits
    } else {
        let count = _mm_cvtsi32_si128(dropped_bits as i32);
        // Half a step less one unit, and that unit where the last bit kept is odd: ties to even.
        let odd = _mm256_and_si256(_mm256_srl_epi32(bits, count), _mm256_set1_epi32(1));
        let half = _mm256_set1_epi32((1 << (dropped_bits - 1)) - 1);
        let up = _mm256_add_epi32(bits, _mm256_add_epi32(half, odd));
        _mm256_andnot_si256(_mm256_sub_epi32(step, _mm256_set1_epi32(1)), up)
    };
    let near = _mm256_max_epi32(near, step);
    let (below, above) = (_mm256_sub_epi32(near, step), _mm256_add_epi32(near, step));
    [below, near, above].map(|bits| _mm256_castsi256_ps(bits))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn absolute(values: __m256) -> __m256 {
    _mm256_andnot_ps(_mm256_set1_ps(-0.0), values)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn array(values: __m256) -> [f32; ROWS] {
    let mut array = [0.0; ROWS];
    // SAFETY: `array` is 32 bytes that may be written; the store needs no alignment.
    unsafe { _mm256_storeu_ps(array.as_mut_ptr(), values) }
    array
}
