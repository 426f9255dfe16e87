//! Codes of 32 values at once, and which of them eight random bits leave open.
//!
//! With `D = 2^(8 + EXTRA)`, a value's position `p` on the row's levels and its 8 random bits `s`, the
//! code is `floor(p + s / 256)`, hence `floor((D p + 2^EXTRA s) / D)`, except where the position's
//! fraction and `s` together lie within `1 / 256` below a whole number: there 16 more bits decide. Here
//! `D p` is computed by one fused operation on `f32`, off by less than [`slack`] units, and a lane is
//! settled only if no error of that size could matter. All others are open: those whose sum lies, modulo
//! `D`, from `slack` units below the last 256th to `slack` units above a whole number.

use core::arch::x86_64::*;

use super::fit::{Position, slack};
use super::pack::{LANES, pack, pack_bytes};

/// Writes 32 codes, and tells which of them are open: bit `i` speaks of value [`super::pack::lane_at`]
/// `(i)`. Random bytes lie in that order.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn decide<const BITS: usize, const EXTRA: i32>(
    position: Position,
    values: [__m256; 4],
    bytes: &[u8; LANES],
    codes: &mut [u8],
) -> u32 {
    let (factor, offset) = (_mm256_set1_ps(position.factor), _mm256_set1_ps(position.offset));
    let [a, b, c, d] =
        values.map(|values| _mm256_cvttps_epi32(_mm256_fmadd_ps(values, factor, offset)));
    // A byte counts 2^EXTRA each; here it is the upper half of 16 bits.
    let (zero, random) = (_mm256_setzero_si256(), load_bytes(bytes));
    let random = [_mm256_unpacklo_epi8(zero, random), _mm256_unpackhi_epi8(zero, random)];
    if EXTRA == 8 {
        return decide_wide::<BITS>([a, b, c, d], random, codes);
    }
    let shift = _mm_cvtsi32_si128(8 - EXTRA);
    let [low, high] = random.map(|random| _mm256_srl_epi16(random, shift));
    let low = _mm256_add_epi16(_mm256_packus_epi32(a, b), low);
    let high = _mm256_add_epi16(_mm256_packus_epi32(c, d), high);

    let fraction = _mm256_set1_epi16(((1_i32 << (8 + EXTRA)) - 1) as i16);
    let margin = _mm256_set1_epi16(margin::<EXTRA>() as i16);
    let open_low = _mm256_cmpgt_epi16(margin, _mm256_and_si256(low, fraction));
    let open_high = _mm256_cmpgt_epi16(margin, _mm256_and_si256(high, fraction));
    // The code into the topmost bits; what an open lane has above them falls out.
    let up = _mm_cvtsi32_si128(8 - BITS as i32 - EXTRA);
    pack::<BITS>(_mm256_sll_epi16(low, up), _mm256_sll_epi16(high, up), codes);
    _mm256_movemask_epi8(_mm256_packs_epi16(open_low, open_high)) as u32
}

/// [`decide`] for sums of 16 bits below the code, so that a code is the upper half of 32.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn decide_wide<const BITS: usize>(
    units: [__m256i; 4],
    random: [__m256i; 2],
    codes: &mut [u8],
) -> u32 {
    let zero = _mm256_setzero_si256();
    let [low, high] = random;
    let random = [
        _mm256_unpacklo_epi16(low, zero),
        _mm256_unpackhi_epi16(low, zero),
        _mm256_unpacklo_epi16(high, zero),
        _mm256_unpackhi_epi16(high, zero),
    ];
    let margin = _mm256_set1_epi32(margin::<8>());
    // Not zero where the lower half is below the margin.
    let [a, b, c, d] = [0, 1, 2, 3].map(|idx| {
        let sum = _mm256_add_epi32(units[idx], random[idx]);
        (_mm256_srli_epi32::<16>(sum), _mm256_subs_epu16(margin, sum))
    });
    let open = _mm256_packs_epi16(_mm256_packs_epi32(a.1, b.1), _mm256_packs_epi32(c.1, d.1));
    // What an open lane may have above its bits is cut here or there.
    let bytes = _mm256_packus_epi16(_mm256_packus_epi32(a.0, b.0), _mm256_packus_epi32(c.0, d.0));
    pack_bytes::<BITS>(bytes, codes);
    !(_mm256_movemask_epi8(_mm256_cmpeq_epi8(open, zero)) as u32)
}

/// Sums below this, modulo `D`, are open.
const fn margin<const EXTRA: i32>() -> i32 {
    (1 << EXTRA) + 2 * slack::<EXTRA>()
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_bytes(bytes: &[u8; LANES]) -> __m256i {
    // SAFETY: `bytes` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}
