//! Zero points and scales of eight rows at a time, read from a message.

use core::arch::x86_64::*;

use half::f16;

use crate::{MetadataType, Width};

/// Rows whose metadata is read at once.
pub(super) const ROWS: usize = 8;

/// Zero points and scales of up to eight rows of a message.
pub(super) struct Batch {
    zeros: [f32; ROWS],
    scales: [f32; ROWS],
    /// Rows, from the first on, that an encoder can have written.
    pub(super) n_valid: usize,
}

impl Batch {
    /// Reads the metadata in `bytes`: that of eight rows, or of as many as there are left.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn read(metadata: MetadataType, width: Width, bytes: &[u8]) -> Self {
        let (mut zeros, mut scales) = ([0.0; ROWS], [0.0; ROWS]);
        let slots = zeros.iter_mut().zip(&mut scales);
        let n_rows = bytes.len() / (2 * metadata.bytes());
        match metadata {
            MetadataType::Bf16 => {
                for (&[a, b, c, d], (zero, scale)) in bytes.as_chunks().0.iter().zip(slots) {
                    *zero = f32::from_le_bytes([0, 0, a, b]);
                    *scale = f32::from_le_bytes([0, 0, c, d]);
                }
            }
            MetadataType::F16 => {
                for (&[a, b, c, d], (zero, scale)) in bytes.as_chunks().0.iter().zip(slots) {
                    *zero = f16::from_le_bytes([a, b]).to_f32();
                    *scale = f16::from_le_bytes([c, d]).to_f32();
                }
            }
            MetadataType::F32 => {
                let pairs = bytes.as_chunks::<4>().0.as_chunks::<2>().0;
                for (&[first, second], (zero, scale)) in pairs.iter().zip(slots) {
                    *zero = f32::from_le_bytes(first);
                    *scale = f32::from_le_bytes(second);
                }
            }
        }
        let n_valid = first_invalid(&zeros, &scales, width).min(n_rows);
        Self { zeros, scales, n_valid }
    }

    /// The levels of one row, as decoding at `BITS` bits wants them.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn row<const BITS: usize>(&self, idx: usize) -> RowLevels {
        let (zero, scale) = (_mm256_set1_ps(self.zeros[idx]), _mm256_set1_ps(self.scales[idx]));
        let value = |code| _mm256_add_ps(zero, _mm256_mul_ps(code, scale));
        match BITS {
            1 => {
                let low = value(_mm256_setzero_ps());
                RowLevels { first: low, second: value(_mm256_set1_ps(1.0)) }
            }
            2 => {
                let table = value(_mm256_setr_ps(0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0));
                RowLevels { first: table, second: table }
            }
            _ => RowLevels { first: zero, second: scale },
        }
    }
}

/// The first row whose levels no encoder writes; eight where there is none. As
/// [`crate::levels::Levels::are_valid`] has it.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn first_invalid(zeros: &[f32; ROWS], scales: &[f32; ROWS], width: Width) -> usize {
    let max_code = _mm256_set1_ps(width.max_code().unwrap_or(0) as f32);
    let (zero, scale) = (load(zeros), load(scales));
    let top = _mm256_add_ps(zero, _mm256_mul_ps(max_code, scale));
    let not_negative = _mm256_cmp_ps::<_CMP_GE_OQ>(scale, _mm256_setzero_ps());
    let valid = _mm256_and_ps(_mm256_and_ps(is_finite(zero), is_finite(top)), not_negative);
    _mm256_movemask_ps(valid).trailing_ones() as usize
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn is_finite(values: __m256) -> __m256 {
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), values);
    _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(f32::MAX))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(values: &[f32; 8]) -> __m256 {
    // SAFETY: `values` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

/// One row's levels in registers: at one bit the two of them, at two bits all four, twice, in `first`;
/// at more the zero point and the scale. In every lane, tables apart.
#[derive(Clone, Copy)]
pub(super) struct RowLevels {
    pub(super) first: __m256,
    pub(super) second: __m256,
}

impl RowLevels {
    /// What eight codes stand for: at one bit byte `part` of `word`, at two its half `part`, at four and
    /// eight all of it.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn eight<const BITS: usize>(self, word: u64, part: usize) -> __m256 {
        let all = _mm256_set1_epi32(word as i32);
        let part = _mm256_set1_epi32(part as i32);
        match BITS {
            1 => {
                // Each lane's bit into the sign, which chooses.
                let shifts = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
                let shifts = _mm256_sub_epi32(shifts, _mm256_slli_epi32::<3>(part));
                let signs = _mm256_castsi256_ps(_mm256_sllv_epi32(all, shifts));
                _mm256_blendv_ps(self.first, self.second, signs)
            }
            2 => {
                let shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
                let shifts = _mm256_add_epi32(shifts, _mm256_slli_epi32::<4>(part));
                // Only the two lowest bits of a lane choose.
                _mm256_permutevar_ps(self.first, _mm256_srlv_epi32(all, shifts))
            }
            4 => {
                let shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
                let codes = _mm256_srlv_epi32(all, shifts);
                self.values(_mm256_and_si256(codes, _mm256_set1_epi32(15)))
            }
            _ => self.values(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(word as i64))),
        }
    }

    /// What codes stand for: a multiplication, then an addition, not fused.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn values(self, codes: __m256i) -> __m256 {
        _mm256_add_ps(self.first, _mm256_mul_ps(_mm256_cvtepi32_ps(codes), self.second))
    }
}
