//! Values of one register of columns from their codes, for every machine and for AVX2. Both give the same bits.
// Instructions of AVX2 are called where the processor has them.
#![allow(unsafe_code)]

use crate::cpu::gather::LANES;

/// A row's values as its codes need them, times what all values of the row are multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    /// At one bit the two values, else zero point and scale.
    pub(super) levels: [f32; 2],
    /// What values that stay after dropout are multiplied by, first, and the factor of the row, last.
    pub(super) scales: [f32; 2],
}

impl Levels {
    /// A value of the row after dropout and with its factor.
    #[inline(always)]
    fn scaled<const DROPS: bool, const SCALES: bool>(self, value: f32) -> f32 {
        let value = if DROPS { value * self.scales[0] } else { value };
        if SCALES { value * self.scales[1] } else { value }
    }

    /// The value of a code.
    #[inline(always)]
    fn value<const BITS: usize, const DROPS: bool, const SCALES: bool>(self, code: i32) -> f32 {
        let [low, high] = self.levels;
        let value = match BITS {
            1 => [low, high][code as usize],
            _ => low + code as f32 * high,
        };
        self.scaled::<DROPS, SCALES>(value)
    }
}

/// The values of eight columns, the first of which is `first` in a block whose codes are `codes`.
pub(super) trait Lanes: Copy {
    /// With `DROPS`, dropout leaves those whose bit is set in `kept`, a word of 32 columns.
    fn values<const BITS: usize, const DROPS: bool, const SCALES: bool>(
        self,
        codes: &[u32],
        kept: u32,
        first: usize,
        row: Levels,
    ) -> [f32; LANES];
}

/// For every machine.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn values<const BITS: usize, const DROPS: bool, const SCALES: bool>(
        self,
        codes: &[u32],
        kept: u32,
        first: usize,
        row: Levels,
    ) -> [f32; LANES] {
        std::array::from_fn(|lane| {
            let bit = (first + lane) * BITS;
            let word = codes[bit / 32];
            let code = match BITS {
                8 => i32::from(word.to_le_bytes()[lane % 4]),
                // As a signed number, which there is an instruction for.
                _ => (word >> (bit % 32) & ((1 << BITS) - 1)) as i32,
            };
            let is_kept = !DROPS || kept >> ((first + lane) % 32) & 1 == 1;
            if is_kept { row.value::<BITS, DROPS, SCALES>(code) } else { 0.0 }
        })
    }
}

/// For processors with AVX2: at one and two bits a row's values are in a register and taken from there, by a bit that is
/// shifted into the sign or by the lowest two.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// # Safety
    /// The processor has AVX2.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    #[inline(always)]
    fn values<const BITS: usize, const DROPS: bool, const SCALES: bool>(
        self,
        codes: &[u32],
        kept: u32,
        first: usize,
        row: Levels,
    ) -> [f32; LANES] {
        use avx2::{chosen, looked_up, or_zero};

        let value = |code| row.value::<BITS, DROPS, SCALES>(code);
        // SAFETY: a value of this type is made only where the processor has AVX2.
        unsafe {
            let values = match BITS {
                1 => chosen(codes[first / 32], first % 32, [value(0), value(1)]),
                2 => looked_up(codes[first / 16], first % 16, [0, 1, 2, 3].map(value)),
                _ => {
                    let values = Portable.values::<BITS, false, false>(codes, 0, first, row);
                    values.map(|value| row.scaled::<DROPS, SCALES>(value))
                }
            };
            if DROPS { or_zero(kept, first % 32, values) } else { values }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;

    use crate::cpu::gather::LANES;

    /// Bit `first + lane` of a word in the sign of each lane.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn signs(word: u32, first: usize) -> __m256 {
        let last = _mm256_set1_epi32(31 - first as i32);
        let shifts = _mm256_sub_epi32(last, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_set1_epi32(word as i32), shifts))
    }

    /// One of two values a lane, by bit `first + lane` of a word.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn chosen(word: u32, first: usize, [low, high]: [f32; 2]) -> [f32; LANES] {
        let (low, high) = (_mm256_set1_ps(low), _mm256_set1_ps(high));
        bytemuck::cast(_mm256_blendv_ps(low, high, signs(word, first)))
    }

    /// A lane's value where bit `first + lane` of a word is set, elsewhere 0.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn or_zero(word: u32, first: usize, values: [f32; LANES]) -> [f32; LANES] {
        let values = bytemuck::cast(values);
        bytemuck::cast(_mm256_blendv_ps(_mm256_setzero_ps(), values, signs(word, first)))
    }

    /// One of four values a lane, by two bits of a word, of lane 0 from bit `2 * first` on.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn looked_up(word: u32, first: usize, table: [f32; 4]) -> [f32; LANES] {
        let lanes = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
        let shifts = _mm256_add_epi32(_mm256_set1_epi32(2 * first as i32), lanes);
        let codes = _mm256_srlv_epi32(_mm256_set1_epi32(word as i32), shifts);
        let table = _mm256_broadcastsi128_si256(bytemuck::cast(table));
        // It goes by the lowest two bits of a lane, whatever is above them.
        bytemuck::cast(_mm256_permutevar_ps(_mm256_castsi256_ps(table), codes))
    }
}
