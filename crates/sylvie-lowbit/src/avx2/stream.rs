//! Decoding past the caches, rows of any width.

use core::arch::x86_64::*;

use super::decode::{Message, first_lanes, with_codes};
use super::levels::RowLevels;
use crate::DecodeError;

/// Values of a register.
const LANES: usize = 8;

impl Message<'_> {
    /// Decodes into `out`, rows one after the other, as one run of whole registers at multiples of 32
    /// bytes, wherever rows begin: one that two rows share is put together of both.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn stream_rows<const BITS: usize>(self, out: &mut [f32]) -> Result<(), DecodeError> {
        // SAFETY: any eight `f32` are a register's content, and the other way round.
        let (head, lines, tail) = unsafe { out.align_to_mut::<__m256>() };
        // A narrower row could share a register with two others.
        if self.n_cols < LANES || head.len() >= LANES || lines.is_empty() {
            return self.assign_rows::<BITS>(out);
        }
        let mut to = Stream { lines, shared: _mm256_setzero_ps(), n_shared: 0 };
        let result = self.each_row::<BITS>(|row_idx, levels, codes| {
            let n_done = if row_idx == 0 {
                let first = levels.eight_of_first::<BITS>(codes, 0);
                store(first, head);
                head.len()
            } else {
                to.end_shared::<BITS>(levels, codes)
            };
            to.row::<BITS>(levels, codes, n_done, self.n_cols);
        });
        match to.lines.first_mut() {
            Some(line) if to.n_shared > 0 => {
                *line = _mm256_blendv_ps(*line, to.shared, first_lanes(to.n_shared));
            }
            _ => store(to.shared, &mut tail[..to.n_shared]),
        }
        // Whoever is told that the rows are there may be another thread.
        _mm_sfence();
        result
    }
}

/// Where decoded values go.
struct Stream<'o> {
    /// What has not been written.
    lines: &'o mut [__m256],
    /// The first values of the first of them, not written either, and how many.
    shared: __m256,
    n_shared: usize,
}

impl<'o> Stream<'o> {
    /// The next `n` registers.
    #[inline]
    fn take(&mut self, n: usize) -> &'o mut [__m256] {
        let (taken, rest) = core::mem::take(&mut self.lines).split_at_mut(n);
        self.lines = rest;
        taken
    }

    /// Completes the register that the row before began, and tells how many values that took.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn end_shared<const BITS: usize>(&mut self, levels: RowLevels, codes: &[u8]) -> usize {
        if self.n_shared == 0 {
            return 0;
        }
        let first = levels.eight_of_first::<BITS>(codes, self.n_shared);
        let values = _mm256_blendv_ps(first, self.shared, first_lanes(self.n_shared));
        stream(values, &mut self.take(1)[0]);
        LANES - self.n_shared
    }

    /// Writes a row from column `n_done` on, and keeps what does not fill a register.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn row<const BITS: usize>(
        &mut self,
        levels: RowLevels,
        codes: &[u8],
        n_done: usize,
        n_cols: usize,
    ) {
        let (codes, shift) = (&codes[n_done * BITS / 8..], (n_done * BITS % 8) as u32);
        let n_lines = (n_cols - n_done) / LANES;
        self.n_shared = (n_cols - n_done) % LANES;
        let (fours, rest) = self.take(n_lines).as_chunks_mut::<4>();
        let n_rest = rest.len();
        let mut at = 0;
        for four in fours {
            with_codes(&codes[at..], 4 * BITS + 4, |codes| {
                for (part, line) in four.iter_mut().enumerate() {
                    stream(levels.eight_of::<BITS, true>(codes, shift, part), line);
                }
            });
            at += 4 * BITS;
        }
        if n_rest > 0 || self.n_shared > 0 {
            with_codes(&codes[at..], 4 * BITS + 4, |codes| {
                for (part, line) in rest.iter_mut().enumerate() {
                    stream(levels.eight_of::<BITS, true>(codes, shift, part), line);
                }
                self.shared = levels.eight_of::<BITS, true>(codes, shift, n_rest);
            });
        }
    }
}

impl RowLevels {
    /// The first values of a row, from lane `n_skipped` on; the lanes before hold any levels.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn eight_of_first<const BITS: usize>(self, codes: &[u8], n_skipped: usize) -> __m256 {
        let mut values = self.first;
        with_codes(codes, 8, |codes| {
            let word = u64::from_le_bytes(*codes.first_chunk().expect("as many as asked for"));
            values = self.eight::<BITS>(word << (n_skipped * BITS), 0);
        });
        values
    }
}

/// Writes a register past the caches.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn stream(values: __m256, line: &mut __m256) {
    // SAFETY: `line` may be written, and its type has the alignment wanted.
    unsafe { _mm256_stream_ps(core::ptr::from_mut(line).cast(), values) }
}

/// Writes the first of eight values, as many as there are slots.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(values: __m256, slots: &mut [f32]) {
    let mut eight = [0.0; LANES];
    // SAFETY: `eight` is 32 bytes that may be written; the store needs no alignment.
    unsafe { _mm256_storeu_ps(eight.as_mut_ptr(), values) }
    slots.copy_from_slice(&eight[..slots.len()]);
}
