//! Philox4x32-7 for four column blocks at once.

use core::arch::x86_64::*;

use sylvie_random::Family;

use crate::draws::{BLOCK_VALUES, FIRST_TIE_BLOCK, TIE_BLOCK_VALUES};

const MULTIPLIER_0: u32 = 0xD251_1F53;
const MULTIPLIER_1: u32 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const N_ROUNDS: usize = 7;

/// Values whose bytes one call makes.
pub(super) const VALUES: usize = 4 * BLOCK_VALUES;

/// What all rows of a message have in common.
pub(super) struct Draws {
    family: Family,
    /// Round keys, in every 64-bit lane.
    keys: [[__m256i; 2]; N_ROUNDS],
}

impl Draws {
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn new(family: Family) -> Self {
        let [mut k0, mut k1] = family.key;
        let mut keys = [[_mm256_setzero_si256(); 2]; N_ROUNDS];
        for key in &mut keys {
            *key = [lanes(k0), lanes(k1)];
            k0 = k0.wrapping_add(WEYL_0);
            k1 = k1.wrapping_add(WEYL_1);
        }
        Self { family, keys }
    }

    /// Fills `bytes` with the bytes of column blocks `first_block ..` of the row with key `node`; in each
    /// half, which are those of 32 values, in the order of [`super::pack::lane_at`].
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn fill(&self, node: u32, first_block: u32, bytes: &mut [[u8; VALUES]]) {
        // Two of a round's multiplications have factors that are the same in all of a row's blocks.
        let [k0, k1] = self.family.key;
        let p = u64::from(MULTIPLIER_1) * u64::from(self.family.epoch);
        let c0 = (p >> 32) as u32 ^ node ^ k0;
        let q = u64::from(MULTIPLIER_0) * u64::from(c0);
        let row = Row {
            c2: lanes(self.family.tag ^ k1),
            c0: lanes(p as u32 ^ k0.wrapping_add(WEYL_0)),
            c2_next: lanes((q >> 32) as u32 ^ k1.wrapping_add(WEYL_1)),
            c3_next: lanes(q as u32),
        };
        let mut blocks = _mm256_add_epi64(lanes(first_block), _mm256_setr_epi64x(0, 1, 2, 3));
        let (pairs, rest) = bytes.as_chunks_mut::<2>();
        for [a, b] in pairs {
            let more = _mm256_add_epi32(blocks, lanes(4));
            self.four_blocks(&row, blocks, a);
            self.four_blocks(&row, more, b);
            blocks = _mm256_add_epi32(more, lanes(4));
        }
        for a in rest {
            self.four_blocks(&row, blocks, a);
        }
    }

    /// The 16 bits for ties of four columns, each of the row with its key.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn ties(&self, nodes: [u32; 4], columns: [u64; 4]) -> [u16; 4] {
        let wide =
            |[a, b, c, d]: [u64; 4]| _mm256_setr_epi64x(a as i64, b as i64, c as i64, d as i64);
        let (m0, m1) = (lanes(MULTIPLIER_0), lanes(MULTIPLIER_1));
        let block = |column| u64::from(FIRST_TIE_BLOCK) | (column / TIE_BLOCK_VALUES as u64);
        let mut c0 = wide(columns.map(block));
        let mut c1 = wide(nodes.map(u64::from));
        let (mut c2, mut c3) = (lanes(self.family.epoch), lanes(self.family.tag));
        for [k0, k1] in &self.keys {
            let p0 = _mm256_mul_epu32(m0, c0);
            let p1 = _mm256_mul_epu32(m1, c2);
            c0 = _mm256_xor_si256(_mm256_xor_si256(high(p1), c1), *k0);
            c2 = _mm256_xor_si256(_mm256_xor_si256(high(p0), c3), *k1);
            (c1, c3) = (p1, p0);
        }
        // Word `w` of block `i` in place `i` of `words[w]`, in the lower half.
        let mut words = [[0_u8; 32]; 4];
        for (bytes, word) in words.iter_mut().zip([c0, c1, c2, c3]) {
            store(bytes, word);
        }
        [0, 1, 2, 3].map(|idx| {
            let at = columns[idx] as usize % TIE_BLOCK_VALUES;
            let bytes = &words[at / 2][8 * idx + at % 2 * 2..][..2];
            u16::from_le_bytes([bytes[0], bytes[1]])
        })
    }

    /// The bytes of four blocks. Words lie in the lower halves of 64-bit lanes; what the upper halves
    /// hold is never used.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn four_blocks(&self, row: &Row, blocks: __m256i, bytes: &mut [u8; VALUES]) {
        let (m0, m1) = (lanes(MULTIPLIER_0), lanes(MULTIPLIER_1));
        let p0 = _mm256_mul_epu32(m0, blocks);
        let p1 = _mm256_mul_epu32(m1, _mm256_xor_si256(high(p0), row.c2));
        let mut c0 = _mm256_xor_si256(high(p1), row.c0);
        let mut c1 = p1;
        let mut c2 = _mm256_xor_si256(p0, row.c2_next);
        let mut c3 = row.c3_next;
        for [k0, k1] in &self.keys[2..] {
            let p0 = _mm256_mul_epu32(m0, c0);
            let p1 = _mm256_mul_epu32(m1, c2);
            c0 = _mm256_xor_si256(_mm256_xor_si256(high(p1), c1), *k0);
            c2 = _mm256_xor_si256(_mm256_xor_si256(high(p0), c3), *k1);
            (c1, c3) = (p1, p0);
        }
        let even = _mm256_blend_epi32::<0b1010_1010>(c0, _mm256_slli_epi64::<32>(c2));
        let odd = _mm256_blend_epi32::<0b1010_1010>(c1, _mm256_slli_epi64::<32>(c3));
        let (first, second) = bytes.split_at_mut(VALUES / 2);
        store(first, _mm256_permute2x128_si256::<0x20>(even, odd));
        store(second, _mm256_permute2x128_si256::<0x31>(even, odd));
    }
}

/// What the blocks of one row have in common.
struct Row {
    c2: __m256i,
    c0: __m256i,
    c2_next: __m256i,
    c3_next: __m256i,
}

/// A word in the lower half of every 64-bit lane.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn lanes(word: u32) -> __m256i {
    _mm256_set1_epi64x(i64::from(word))
}

/// The upper halves of 64-bit lanes, as their lower halves.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn high(products: __m256i) -> __m256i {
    _mm256_srli_epi64::<32>(products)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(bytes: &mut [u8], values: __m256i) {
    assert!(bytes.len() == 32, "{} bytes for a register of 32", bytes.len());
    // SAFETY: `bytes` is 32 bytes of memory that may be written; the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), values) }
}
