//! Encoding at quantised widths.
//!
//! With `D = 2^(8 + EXTRA)`, a value's position `p` on the row's levels and its 8 random bits `s`, the
//! code is `floor(p + s / 256)`, hence `floor((D p + 2^EXTRA s) / D)`, except where the position's
//! fraction and `s` together lie within `1 / 256` below a whole number: there 16 more bits decide. Here
//! `D p` is computed by one fused operation on `f32`, off by less than one unit, and a lane is settled
//! only if no error of that size could matter. All others go to [`Levels::round`].

use core::arch::x86_64::*;

use sylvie_random::Family;

use super::draws::{Draws, VALUES};
use super::pack::{pack, set_code};
use super::{prefetch, range, rows_ahead};
use crate::draws::RowDraws;
use crate::encode::{Rows, quantize};
use crate::levels::Levels;
use crate::{EncodeError, RowCodec, Width};

/// Values decided at once.
pub(super) const LANES: usize = 32;
/// Batches of random bytes made ahead: few enough to stay in the fastest cache.
const BATCHES: usize = 8;

type Random = [[u8; VALUES]; BATCHES];

/// What [`super::Avx2::encode`] does.
#[target_feature(enable = "avx2,fma")]
pub(super) fn encode<'x>(
    codec: RowCodec,
    rows: &impl Rows<'x>,
    n_cols: usize,
    row_keys: &[u32],
    family: Family,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    let max_code = codec.width.max_code().expect("a quantised width");
    let draws = Draws::new(family);
    let ahead = rows_ahead(n_cols);
    let mut random = [[0; VALUES]; BATCHES];
    for (row_idx, &key) in row_keys.iter().enumerate() {
        let place = codec.place(row_keys.len(), n_cols, row_idx);
        if let Some((x, upcoming)) = rows.upcoming(row_idx + ahead) {
            prefetch(x, upcoming, n_cols);
        }
        let row = rows.row(row_idx);
        let levels = match if n_cols == 0 { None } else { range::range(row) } {
            Some((min, max)) => Levels::from_range(min, max, row_idx, max_code, codec.metadata)?,
            None => Levels::enclose(row, row_idx, max_code, codec.metadata)?,
        };
        let payload = &mut out[place.payload()];
        let row = Row { values: row, levels, draws: RowDraws { family, key } };
        match codec.width {
            Width::One => row.quantize::<1, 7>(&draws, &mut random, payload),
            Width::Two => row.quantize::<2, 6>(&draws, &mut random, payload),
            Width::Four => row.quantize::<4, 4>(&draws, &mut random, payload),
            _ => row.quantize::<8, 4>(&draws, &mut random, payload),
        }
        codec.metadata.write_pair(levels, &mut out[place.metadata()]);
    }
    Ok(())
}

/// One row on its way.
struct Row<'x> {
    values: &'x [f32],
    levels: Levels,
    draws: RowDraws,
}

impl Row<'_> {
    /// Writes the codes: with `EXTRA` bits to spare where the levels are fine enough to be told apart
    /// so, with none where the row is far from 0 compared with its range, else by the plain version.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn quantize<const BITS: usize, const EXTRA: i32>(
        &self,
        draws: &Draws,
        random: &mut Random,
        payload: &mut [u8],
    ) {
        if self.levels.scale == 0.0 {
            payload.fill(0);
        } else if let Some(position) = Position::new::<EXTRA>(self.levels, (1 << BITS) - 1) {
            self.quantize_from::<BITS, EXTRA>(position, draws, random, payload);
        } else if let Some(position) = Position::new::<0>(self.levels, (1 << BITS) - 1) {
            self.quantize_from::<BITS, 0>(position, draws, random, payload);
        } else {
            quantize::<BITS>(self.values, self.levels, self.draws, payload);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn quantize_from<const BITS: usize, const EXTRA: i32>(
        &self,
        position: Position,
        draws: &Draws,
        random: &mut Random,
        payload: &mut [u8],
    ) {
        let parts = self.values.chunks(BATCHES * VALUES);
        for (part_idx, values) in parts.enumerate() {
            let first = part_idx * BATCHES * VALUES;
            let random = &mut random[..values.len().div_ceil(VALUES)];
            draws.fill(self.draws.key, (first / 16) as u32, random);
            let payload = &mut payload[first / 8 * BITS..];
            let (chunks, rest) = values.as_chunks::<LANES>();
            let bytes = random.as_flattened().as_chunks::<LANES>().0;
            for (idx, (chunk, bytes)) in chunks.iter().zip(bytes).enumerate() {
                let codes = &mut payload[idx * 4 * BITS..][..4 * BITS];
                let open = decide::<BITS, EXTRA>(position, chunk, bytes, codes);
                if open != 0 {
                    self.settle::<BITS>(first + idx * LANES, open, bytes, codes);
                }
            }
            if !rest.is_empty() {
                let mut padded = [self.levels.zero; LANES];
                padded[..rest.len()].copy_from_slice(rest);
                let (start, bytes) = (chunks.len() * LANES, &bytes[chunks.len()]);
                let mut codes = [0; 4 * LANES / 16 * 8];
                let codes = &mut codes[..4 * BITS];
                let open = decide::<BITS, EXTRA>(position, &padded, bytes, codes);
                let within = (1 << rest.len()) - 1;
                self.settle::<BITS>(first + start, open & within, bytes, codes);
                let n_bytes = (rest.len() * BITS).div_ceil(8);
                clear_padding(codes, rest.len() * BITS);
                payload[start / 8 * BITS..][..n_bytes].copy_from_slice(&codes[..n_bytes]);
            }
        }
    }

    /// Decides the lanes in `open` by the plain rule.
    #[cold]
    #[inline(never)]
    fn settle<const BITS: usize>(
        &self,
        first: usize,
        mut open: u32,
        bytes: &[u8; LANES],
        codes: &mut [u8],
    ) {
        let max_code = (1 << BITS) - 1;
        let reciprocal = 1.0 / f64::from(self.levels.scale);
        while open != 0 {
            let lane = open.trailing_zeros() as usize;
            let column = first + lane;
            let tie = || self.draws.tie(column);
            let (value, byte) = (self.values[column], bytes[lane]);
            let code = self.levels.round(value, reciprocal, max_code, byte, tie);
            set_code::<BITS>(codes, lane, code);
            open &= open - 1;
        }
    }
}

/// Zeroes what follows the first `n_bits` bits.
fn clear_padding(codes: &mut [u8], n_bits: usize) {
    if let Some((last, rest)) = codes[n_bits / 8..].split_first_mut() {
        *last &= (1 << (n_bits % 8)) - 1;
        rest.fill(0);
    }
}

/// `D p + 2^EXTRA + 1` as a function of the value: `value * factor + offset`, fused.
#[derive(Clone, Copy)]
struct Position {
    factor: f32,
    offset: f32,
}

impl Position {
    /// The function for these levels, where it is off by less than one unit at every value between the
    /// lowest and the highest.
    ///
    /// Let `M` be the larger magnitude of those two, `e = 2^-24`. The factor is off by `e` of itself,
    /// which moves the result by at most `e * factor * 2 M`; the offset is rounded twice, by at most
    /// `e * factor * M` and `e * (factor * M + 130)`; the result once, by at most
    /// `e * (factor * 2 M + 130)`. Levels lie within `e * 3 M` of where exact arithmetic has them.
    /// Together that is below `e * 9.1 * factor * M`.
    #[inline]
    fn new<const EXTRA: i32>(levels: Levels, max_code: u32) -> Option<Self> {
        const MOST: f32 = (1 << 20) as f32;
        const FINEST: f32 = f32::from_bits((127 - 100) << 23);
        const COARSEST: f32 = f32::from_bits((127 + 100) << 23);
        let unit = (256 << EXTRA) as f32;
        let factor = unit / levels.scale;
        let magnitude = levels.zero.abs().max(levels.value(max_code).abs());
        let is_close =
            levels.scale >= FINEST && levels.scale <= COARSEST && factor * magnitude <= MOST;
        let offset = ((1 << EXTRA) + 1) as f32 - levels.zero * factor;
        is_close.then_some(Self { factor, offset })
    }
}

/// Writes 32 codes, and tells which of them are open: those whose sum lies, modulo `D`, from one unit
/// below the last 256th to one unit above a whole number.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn decide<const BITS: usize, const EXTRA: i32>(
    position: Position,
    values: &[f32; LANES],
    bytes: &[u8; LANES],
    codes: &mut [u8],
) -> u32 {
    if BITS as i32 + EXTRA > 8 {
        return decide_wide::<EXTRA>(position, values, bytes, codes);
    }
    let (factor, offset) = (_mm256_set1_ps(position.factor), _mm256_set1_ps(position.offset));
    let (quads, _) = values.as_chunks::<4>();
    // Four values from each half of the chunk, so that packing leaves everything in order.
    let units = |quad: usize| {
        let values = load_quads(&quads[quad], &quads[quad + 4]);
        _mm256_cvttps_epi32(_mm256_fmadd_ps(values, factor, offset))
    };
    let zero = _mm256_setzero_si256();
    let random = load_bytes(bytes);
    // A byte in the upper half of 16 bits, moved down to where it counts 2^EXTRA each.
    let shift = _mm_cvtsi32_si128(8 - EXTRA);
    let low = _mm256_srl_epi16(_mm256_unpacklo_epi8(zero, random), shift);
    let high = _mm256_srl_epi16(_mm256_unpackhi_epi8(zero, random), shift);
    let low = _mm256_add_epi16(_mm256_packus_epi32(units(0), units(1)), low);
    let high = _mm256_add_epi16(_mm256_packus_epi32(units(2), units(3)), high);

    let fraction = _mm256_set1_epi16(((1_i32 << (8 + EXTRA)) - 1) as i16);
    let margin = _mm256_set1_epi16((1 << EXTRA) + 2);
    let open_low = _mm256_cmpgt_epi16(margin, _mm256_and_si256(low, fraction));
    let open_high = _mm256_cmpgt_epi16(margin, _mm256_and_si256(high, fraction));
    // The code into the topmost bits; what an open lane has above them falls out.
    let up = _mm_cvtsi32_si128(8 - BITS as i32 - EXTRA);
    pack::<BITS>(_mm256_sll_epi16(low, up), _mm256_sll_epi16(high, up), codes);
    _mm256_movemask_epi8(_mm256_packs_epi16(open_low, open_high)) as u32
}

/// [`decide`] for 8 bits with bits to spare, whose sums take more than 16 bits.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn decide_wide<const EXTRA: i32>(
    position: Position,
    values: &[f32; LANES],
    bytes: &[u8; LANES],
    codes: &mut [u8],
) -> u32 {
    let (factor, offset) = (_mm256_set1_ps(position.factor), _mm256_set1_ps(position.offset));
    let (quads, _) = values.as_chunks::<4>();
    let (shift, down) = (_mm_cvtsi32_si128(EXTRA), _mm_cvtsi32_si128(8 + EXTRA));
    let fraction = _mm256_set1_epi32((1 << (8 + EXTRA)) - 1);
    let margin = _mm256_set1_epi32((1 << EXTRA) + 2);
    // The codes of eight values, and which of them are open.
    let eight = |quad: usize, random: __m256i| {
        let values = load_quads(&quads[quad], &quads[quad + 4]);
        let units = _mm256_cvttps_epi32(_mm256_fmadd_ps(values, factor, offset));
        let sums = _mm256_add_epi32(units, _mm256_sll_epi32(random, shift));
        let open = _mm256_cmpgt_epi32(margin, _mm256_and_si256(sums, fraction));
        (_mm256_srl_epi32(sums, down), open)
    };
    let zero = _mm256_setzero_si256();
    let random = load_bytes(bytes);
    let (low, high) = (_mm256_unpacklo_epi8(random, zero), _mm256_unpackhi_epi8(random, zero));
    let (a, open_a) = eight(0, _mm256_unpacklo_epi16(low, zero));
    let (b, open_b) = eight(1, _mm256_unpackhi_epi16(low, zero));
    let (c, open_c) = eight(2, _mm256_unpacklo_epi16(high, zero));
    let (d, open_d) = eight(3, _mm256_unpackhi_epi16(high, zero));
    let open_low = _mm256_packs_epi32(open_a, open_b);
    let open_high = _mm256_packs_epi32(open_c, open_d);
    // Into the topmost bits, where `pack` takes codes from.
    let (low, high) = (_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    pack::<8>(_mm256_slli_epi16::<8>(low), _mm256_slli_epi16::<8>(high), codes);
    _mm256_movemask_epi8(_mm256_packs_epi16(open_low, open_high)) as u32
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_quads(low: &[f32; 4], high: &[f32; 4]) -> __m256 {
    // SAFETY: both are 16 bytes of readable memory; the loads need no alignment.
    let (low, high) = unsafe { (_mm_loadu_ps(low.as_ptr()), _mm_loadu_ps(high.as_ptr())) };
    _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_bytes(bytes: &[u8; LANES]) -> __m256i {
    // SAFETY: `bytes` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}
