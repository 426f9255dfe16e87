//! From 16-bit lanes to packed codes.

use core::arch::x86_64::*;

/// Values decided at once.
pub(super) const LANES: usize = 32;

/// Which of 32 values lies in byte `place` when four registers of eight 32-bit lanes have been packed to
/// 16 and to 8 bits, each half by itself.
#[inline]
pub(super) fn lane_at(place: usize) -> usize {
    place / 4 % 4 * 8 + place / 16 * 4 + place % 4
}

/// Packs the uppermost `BITS` bits of 32 lanes into `4 * BITS` bytes: `low` holds values 0 to 15, `high`
/// the others, the lower half of each the first four of every eight.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn pack<const BITS: usize>(low: __m256i, high: __m256i, codes: &mut [u8]) {
    if BITS == 1 {
        let bits = _mm256_movemask_epi8(in_order(_mm256_packs_epi16(low, high))) as u32;
        codes.copy_from_slice(&bits.to_le_bytes());
        return;
    }
    let down = _mm_cvtsi32_si128(16 - BITS as i32);
    pack_bytes::<BITS>(
        _mm256_packus_epi16(_mm256_srl_epi16(low, down), _mm256_srl_epi16(high, down)),
        codes,
    );
}

/// Packs 32 codes of a byte each, which lie where [`lane_at`] says.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn pack_bytes<const BITS: usize>(bytes: __m256i, codes: &mut [u8]) {
    match BITS {
        2 => {
            let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x0401));
            let quads = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0010_0001));
            let (first, second) =
                (_mm256_castsi256_si128(quads), _mm256_extracti128_si256::<1>(quads));
            let eights = _mm_or_si128(first, _mm_slli_epi32::<8>(second));
            let packed = _mm_cvtsi128_si64(_mm_packus_epi32(eights, eights));
            codes.copy_from_slice(&packed.to_le_bytes());
        }
        4 => {
            let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001));
            let packed = _mm256_packus_epi16(pairs, pairs);
            let (first, second) =
                (_mm256_castsi256_si128(packed), _mm256_extracti128_si256::<1>(packed));
            let packed = _mm_unpacklo_epi16(first, second);
            assert!(codes.len() == 16, "{} bytes for 32 codes", codes.len());
            // SAFETY: `codes` is 16 bytes of memory that may be written; the store needs no alignment.
            unsafe { _mm_storeu_si128(codes.as_mut_ptr().cast(), packed) }
        }
        _ => {
            assert!(codes.len() == 32, "{} bytes for 32 codes", codes.len());
            // SAFETY: `codes` is 32 bytes of memory that may be written; the store needs no alignment.
            unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), in_order(bytes)) }
        }
    }
}

/// Puts what lies where [`lane_at`] says in the order of the values.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn in_order(bytes: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Replaces one packed code.
#[inline]
pub(super) fn set_code<const BITS: usize>(codes: &mut [u8], column: usize, code: u32) {
    let (byte, shift) = (&mut codes[column * BITS / 8], column * BITS % 8);
    let mask = ((1_u32 << BITS) - 1) << shift;
    *byte = (u32::from(*byte) & !mask | code << shift) as u8;
}
