//! From 16-bit lanes to packed codes.

use core::arch::x86_64::*;

/// Packs the uppermost `BITS` bits of 32 lanes, those of `low` first, in each the lower 128 bits' lanes
/// being values 0 to 7 (8 to 15 in `high`) and the upper ones' values 16 on.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn pack<const BITS: usize>(low: __m256i, high: __m256i, codes: &mut [u8]) {
    if BITS == 1 {
        let bits = _mm256_movemask_epi8(_mm256_packs_epi16(low, high)) as u32;
        codes.copy_from_slice(&bits.to_le_bytes());
        return;
    }
    let down = _mm_cvtsi32_si128(16 - BITS as i32);
    let bytes = _mm256_packus_epi16(_mm256_srl_epi16(low, down), _mm256_srl_epi16(high, down));
    match BITS {
        2 => {
            let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x0401));
            let quads = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0010_0001));
            let words = _mm256_packs_epi32(quads, quads);
            let packed = _mm256_packus_epi16(words, words);
            let first = _mm256_extract_epi32::<0>(packed) as u32;
            let second = _mm256_extract_epi32::<4>(packed) as u32;
            let packed = u64::from(second) << 32 | u64::from(first);
            codes.copy_from_slice(&packed.to_le_bytes());
        }
        4 => {
            let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001));
            let packed = _mm256_packus_epi16(pairs, pairs);
            let first = _mm256_extract_epi64::<0>(packed) as u64;
            let second = _mm256_extract_epi64::<2>(packed) as u64;
            let packed = u128::from(second) << 64 | u128::from(first);
            codes.copy_from_slice(&packed.to_le_bytes());
        }
        _ => {
            assert!(codes.len() == 32, "{} bytes for 32 codes", codes.len());
            // SAFETY: `codes` is 32 bytes of memory that may be written; the store needs no alignment.
            unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), bytes) }
        }
    }
}

/// Replaces one packed code.
#[inline]
pub(super) fn set_code<const BITS: usize>(codes: &mut [u8], lane: usize, code: u32) {
    let (byte, shift) = (&mut codes[lane * BITS / 8], lane * BITS % 8);
    let mask = ((1_u32 << BITS) - 1) << shift;
    *byte = (u32::from(*byte) & !mask | code << shift) as u8;
}
