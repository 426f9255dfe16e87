//! A row's smallest and largest value, in one pass.

use core::arch::x86_64::*;

/// Minimum and maximum of a row; `None` where it may hold a NaN or an infinity.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn range(row: &[f32]) -> Option<(f32, f32)> {
    let first = _mm256_set1_ps(row[0]);
    let (mut min, mut max) = ([first; 2], [first; 2]);
    // A NaN or an infinity anywhere leaves its sum a NaN or an infinity.
    let mut sum = [_mm256_setzero_ps(); 2];
    let (pairs, rest) = row.as_chunks::<16>();
    for pair in pairs {
        let halves = pair.as_chunks::<8>().0;
        for idx in 0..2 {
            let values = load(&halves[idx]);
            min[idx] = _mm256_min_ps(min[idx], values);
            max[idx] = _mm256_max_ps(max[idx], values);
            sum[idx] = _mm256_add_ps(sum[idx], values);
        }
    }
    if !rest.is_empty() {
        let mut padded = [row[0]; 16];
        padded[..rest.len()].copy_from_slice(rest);
        for (idx, half) in padded.as_chunks::<8>().0.iter().enumerate() {
            let values = load(half);
            min[idx] = _mm256_min_ps(min[idx], values);
            max[idx] = _mm256_max_ps(max[idx], values);
            sum[idx] = _mm256_add_ps(sum[idx], values);
        }
    }
    let sum = _mm256_add_ps(sum[0], sum[1]);
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), sum);
    let finite = _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(f32::MAX));
    if _mm256_movemask_ps(finite) != 0xff {
        return None;
    }
    let min = fold(_mm256_min_ps(min[0], min[1]), |a, b| _mm_min_ps(a, b));
    let max = fold(_mm256_max_ps(max[0], max[1]), |a, b| _mm_max_ps(a, b));
    Some((min, max))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(values: &[f32; 8]) -> __m256 {
    // SAFETY: `values` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

/// Combines eight lanes into one value.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn fold(lanes: __m256, combine: impl Fn(__m128, __m128) -> __m128) -> f32 {
    let four = combine(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let two = combine(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(combine(two, _mm_shuffle_ps::<1>(two, two)))
}
