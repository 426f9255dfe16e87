//! The smallest and the largest value of rows, in one pass over each.

use core::arch::x86_64::*;

use super::levels::ROWS;

/// Minima and maxima of up to eight rows, one a lane.
#[derive(Clone, Copy)]
pub(super) struct Ranges {
    pub(super) min: __m256,
    pub(super) max: __m256,
    /// All ones for rows that hold neither a NaN nor an infinity; of others some, if they are large.
    pub(super) finite: __m256,
}

impl Ranges {
    /// Those of `rows`, which have columns.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn of(rows: &[&[f32]]) -> Self {
        let zero = _mm256_setzero_ps();
        let (mut min, mut max, mut sum) = ([zero; ROWS], [zero; ROWS], [zero; ROWS]);
        for (idx, row) in rows.iter().enumerate().take(ROWS) {
            (min[idx], max[idx], sum[idx]) = lanes_of(row);
        }
        let sum = fold(sum, |a, b| _mm256_add_ps(a, b));
        let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), sum);
        Self {
            min: fold(min, |a, b| _mm256_min_ps(a, b)),
            max: fold(max, |a, b| _mm256_max_ps(a, b)),
            finite: _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(f32::MAX)),
        }
    }
}

/// Minima, maxima and sums of products of every eighth value. A NaN or an infinity anywhere leaves a sum a
/// NaN or an infinity; values may be taken twice.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn lanes_of(row: &[f32]) -> (__m256, __m256, __m256) {
    let first = _mm256_set1_ps(row[0]);
    let (mut min, mut max, mut sum) = ([first; 2], [first; 2], [_mm256_setzero_ps(); 2]);
    let mut take = |values: &[f32; 32]| {
        for (pair, sum) in values.as_chunks::<16>().0.iter().zip(&mut sum) {
            let halves = pair.as_chunks::<8>().0;
            let (a, b) = (load(&halves[0]), load(&halves[1]));
            min = [_mm256_min_ps(min[0], a), _mm256_min_ps(min[1], b)];
            max = [_mm256_max_ps(max[0], a), _mm256_max_ps(max[1], b)];
            // One operation for two registers.
            *sum = _mm256_fmadd_ps(a, b, *sum);
        }
    };
    let (chunks, rest) = row.as_chunks();
    chunks.iter().for_each(&mut take);
    if !rest.is_empty() {
        match row.last_chunk() {
            Some(last) => take(last),
            None => {
                let mut padded = [row[0]; 32];
                padded[..rest.len()].copy_from_slice(rest);
                take(&padded);
            }
        }
    }
    let min = _mm256_min_ps(min[0], min[1]);
    (min, _mm256_max_ps(max[0], max[1]), _mm256_add_ps(sum[0], sum[1]))
}

/// Combines the lanes of each register into one; those of register `i` into lane `i`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn fold(rows: [__m256; ROWS], combine: impl Fn(__m256, __m256) -> __m256) -> __m256 {
    // Lanes 0 and 1 of a, 0 and 1 of b, ... side by side, in each half.
    let pairs = |a: __m256, b: __m256| {
        let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        combine(low, high)
    };
    let fours = |a: __m256, b: __m256| {
        let (low, high) = (_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
        combine(low, high)
    };
    let [a, b, c, d, e, f, g, h] = rows;
    let (low, high) = (fours(pairs(a, b), pairs(c, d)), fours(pairs(e, f), pairs(g, h)));
    combine(_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(values: &[f32; 8]) -> __m256 {
    // SAFETY: `values` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}
