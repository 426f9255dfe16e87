//! Encoding at quantised widths, some rows at a time: their ranges, then their levels at once, then their
//! random bytes, then their codes, and last the codes that need more random bits.

use core::arch::x86_64::*;

use sylvie_random::Family;

use super::decide::decide;
use super::draws::{Draws, VALUES};
use super::fit::{Fitted, Position};
use super::levels::ROWS;
use super::pack::{LANES, lane_at, set_code};
use super::prefetch;
use super::range::Ranges;
use crate::draws::RowDraws;
use crate::encode::{Rows, quantize};
use crate::levels::Levels;
use crate::{EncodeError, RowCodec, Width};

/// Batches of random bytes made ahead. With the values that they are for they fit the fastest cache.
const BATCHES: usize = 32;
/// Values whose random bytes are made ahead.
const PART: usize = BATCHES * VALUES;
/// Places to note open codes: at least as many as a part has groups of 32, a power of two.
const NOTES: usize = 256;
const _: () = assert!(NOTES >= PART / LANES + ROWS && NOTES.is_power_of_two());

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
    match codec.width {
        Width::One => encode_at::<1, 7>(codec, rows, n_cols, row_keys, family, out),
        Width::Two => encode_at::<2, 6>(codec, rows, n_cols, row_keys, family, out),
        Width::Four => encode_at::<4, 4>(codec, rows, n_cols, row_keys, family, out),
        _ => encode_at::<8, 8>(codec, rows, n_cols, row_keys, family, out),
    }
}

/// [`encode`] at `BITS` bits, with `EXTRA` bits to spare wherever the levels are fine enough.
#[target_feature(enable = "avx2,fma")]
fn encode_at<'x, const BITS: usize, const EXTRA: i32>(
    codec: RowCodec,
    rows: &impl Rows<'x>,
    n_cols: usize,
    row_keys: &[u32],
    family: Family,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    let (metadata, payload) = out.split_at_mut(codec.metadata_bytes(row_keys.len()));
    if n_cols == 0 {
        // Zero point and scale are 0.
        metadata.fill(0);
        return Ok(());
    }
    let row_bytes = codec.row_payload_bytes(n_cols);
    let n_at_once = (PART / n_cols.next_multiple_of(VALUES)).clamp(1, ROWS);
    let mut notes = Notes { random: [[0; VALUES]; BATCHES], open: [Open::default(); NOTES], n: 0 };
    let draws = Draws::new(family);
    for (batch_idx, keys) in row_keys.chunks(n_at_once).enumerate() {
        let first = batch_idx * n_at_once;
        let mut slices = [&[][..]; ROWS];
        for (idx, slice) in slices.iter_mut().enumerate().take(keys.len()) {
            *slice = rows.row(first + idx);
        }
        let batch = Batch {
            rows: &slices[..keys.len()],
            first,
            keys,
            codec,
            draws: &draws,
            family,
            row_bytes,
        };
        let payload = &mut payload[first * row_bytes..];
        let upcoming = |idx| rows.upcoming(first + n_at_once + idx);
        let levels = batch.encode::<BITS, EXTRA>(&mut notes, payload, upcoming)?;
        let metadata = &mut metadata[first * codec.row_metadata_bytes()..];
        let metadata = metadata.chunks_exact_mut(codec.row_metadata_bytes());
        for (&levels, bytes) in levels[..keys.len()].iter().zip(metadata) {
            codec.metadata.write_pair(levels, bytes);
        }
    }
    Ok(())
}

/// Rows that are encoded together.
struct Batch<'b, 'x> {
    rows: &'b [&'x [f32]],
    /// Which row of the message the first of them is.
    first: usize,
    keys: &'b [u32],
    codec: RowCodec,
    draws: &'b Draws,
    family: Family,
    row_bytes: usize,
}

/// What is kept from the first look at values until all is settled.
struct Notes {
    /// Random bytes of each row's current part, whole batches.
    random: [[u8; VALUES]; BATCHES],
    open: [Open; NOTES],
    n: usize,
}

/// Codes of 32 values that need more random bits, or an exact look.
#[derive(Clone, Copy, Default)]
struct Open {
    /// As [`decide`] tells.
    lanes: u32,
    row: u16,
    /// Which 32 of the row's part.
    group: u16,
}

impl Notes {
    /// Notes what is open, if anything is: without a branch, since nobody could foresee it.
    #[inline]
    fn note(&mut self, open: Open) {
        self.open[self.n % NOTES] = open;
        self.n += usize::from(open.lanes != 0);
    }
}

impl<'x> Batch<'_, 'x> {
    /// Writes the codes of all rows, and returns their levels.
    ///
    /// # Errors
    /// As [`Levels::enclose`], for the first row with one.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn encode<const BITS: usize, const EXTRA: i32>(
        &self,
        notes: &mut Notes,
        payload: &mut [u8],
        upcoming: impl Fn(usize) -> Option<(&'x [f32], usize)>,
    ) -> Result<[Levels; ROWS], EncodeError> {
        let max_code = (1 << BITS) - 1;
        let fitted = Fitted::new::<EXTRA>(Ranges::of(self.rows), max_code, self.codec.metadata);
        let mut levels = [Levels { zero: 0.0, scale: 0.0 }; ROWS];
        let n_cols = self.rows[0].len();
        for first in (0..n_cols).step_by(PART) {
            let n_values = PART.min(n_cols - first);
            let n_batches = n_values.div_ceil(VALUES);
            for (&key, random) in self.keys.iter().zip(notes.random.chunks_exact_mut(n_batches)) {
                self.draws.fill(key, (first / 16) as u32, random);
            }
            for (idx, row) in self.rows.iter().enumerate() {
                if let (0, Some((x, upcoming))) = (first, upcoming(idx)) {
                    prefetch(x, upcoming, n_cols);
                }
                let part = Part { values: &row[first..][..n_values], row: idx, n_batches };
                let codes = &mut payload[idx * self.row_bytes + first / 8 * BITS..];
                if let Some((row_levels, position)) = fitted.row(idx) {
                    levels[idx] = row_levels;
                    part.quantize::<BITS, EXTRA>(position, notes, codes);
                    continue;
                }
                let row_idx = self.first + idx;
                levels[idx] = fitted.levels(idx, row, row_idx, max_code, self.codec.metadata)?;
                if levels[idx].scale == 0.0 {
                    codes[..(n_values * BITS).div_ceil(8)].fill(0);
                } else if let Some(position) = Position::new::<EXTRA>(levels[idx], max_code) {
                    part.quantize::<BITS, EXTRA>(position, notes, codes);
                } else if let Some(position) = Position::new::<0>(levels[idx], max_code) {
                    part.quantize::<BITS, 0>(position, notes, codes);
                } else if first == 0 {
                    let draws = RowDraws { family: self.family, key: self.keys[idx] };
                    quantize::<BITS>(row, levels[idx], draws, &mut codes[..self.row_bytes]);
                }
            }
            self.settle::<BITS>(first, n_batches, &levels, notes, payload);
        }
        Ok(levels)
    }

    /// Decides by the plain rule what is noted, four values at a time.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn settle<const BITS: usize>(
        &self,
        first: usize,
        n_batches: usize,
        levels: &[Levels; ROWS],
        notes: &mut Notes,
        payload: &mut [u8],
    ) {
        let mut unsettled = [Unsettled::default(); 4];
        let mut n = 0;
        for open in &notes.open[..notes.n] {
            let (row, group) = (usize::from(open.row), usize::from(open.group));
            let random = notes.random[row * n_batches..].as_flattened();
            let mut lanes = open.lanes;
            while lanes != 0 {
                let place = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                let column = first + group * LANES + lane_at(place);
                let byte = random[group * LANES + place];
                unsettled[n] = Unsettled { row, column, byte };
                // Beyond the end of the row nothing is to be decided.
                n += usize::from(column < self.rows[row].len());
                if n == unsettled.len() {
                    self.settle_four::<BITS>(&unsettled, n, levels, payload);
                    n = 0;
                }
            }
        }
        if n > 0 {
            self.settle_four::<BITS>(&unsettled, n, levels, payload);
        }
        notes.n = 0;
    }

    /// Decides the first `n` of four values.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn settle_four<const BITS: usize>(
        &self,
        unsettled: &[Unsettled; 4],
        n: usize,
        levels: &[Levels; ROWS],
        payload: &mut [u8],
    ) {
        let nodes = unsettled.map(|value| self.keys[value.row]);
        let ties = self.draws.ties(nodes, unsettled.map(|value| value.column as u64));
        for (&Unsettled { row, column, byte }, tie) in unsettled.iter().zip(ties).take(n) {
            let fraction = u32::from(byte) << 16 | u32::from(tie);
            let value = self.rows[row][column];
            let code = levels[row].round_by(value, (1 << BITS) - 1, fraction);
            set_code::<BITS>(&mut payload[row * self.row_bytes..], column, code);
        }
    }
}

/// A value of a batch whose code is open.
#[derive(Clone, Copy, Default)]
struct Unsettled {
    row: usize,
    column: usize,
    byte: u8,
}

/// A row, or as much of it as is looked at together.
struct Part<'x> {
    values: &'x [f32],
    /// Which row of its batch.
    row: usize,
    n_batches: usize,
}

impl Part<'_> {
    /// Writes codes, and notes those that are open. What lies behind a row's codes in `codes` is rows that
    /// are written later, if any: it may change.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn quantize<const BITS: usize, const EXTRA: i32>(
        &self,
        position: Position,
        notes: &mut Notes,
        codes: &mut [u8],
    ) {
        let (chunks, rest) = self.values.as_chunks::<LANES>();
        let (whole, codes) = codes.split_at_mut(chunks.len() * 4 * BITS);
        let first = self.row * self.n_batches * (VALUES / LANES);
        let whole = whole.chunks_exact_mut(4 * BITS);
        for (group, (chunk, codes)) in chunks.iter().zip(whole).enumerate() {
            let random = &notes.random.as_flattened().as_chunks().0[first + group];
            let lanes = decide::<BITS, EXTRA>(position, load_all(chunk), random, codes);
            notes.note(Open { lanes, row: self.row as u16, group: group as u16 });
        }
        if !rest.is_empty() {
            let group = chunks.len();
            let random = &notes.random.as_flattened().as_chunks().0[first + group];
            let (n_bits, values) = (rest.len() * BITS, load_some(rest));
            let mut padded = [0; LANES];
            let last = &mut padded[..4 * BITS];
            let lanes = decide::<BITS, EXTRA>(position, values, random, last);
            clear_padding(last, n_bits);
            match codes.get_mut(..4 * BITS) {
                Some(codes) => codes.copy_from_slice(last),
                None => codes.copy_from_slice(&last[..codes.len()]),
            }
            notes.note(Open { lanes, row: self.row as u16, group: group as u16 });
        }
    }
}

/// Zeroes what follows the first `n_bits` bits.
#[inline]
fn clear_padding(codes: &mut [u8], n_bits: usize) {
    if let Some((last, rest)) = codes[n_bits / 8..].split_first_mut() {
        *last &= (1 << (n_bits % 8)) - 1;
        rest.fill(0);
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_all(values: &[f32; LANES]) -> [__m256; 4] {
    [0, 1, 2, 3].map(|idx| {
        // SAFETY: `values` is 4 times 32 bytes of readable memory; the load needs no alignment.
        unsafe { _mm256_loadu_ps(values.as_ptr().add(8 * idx)) }
    })
}

/// Fewer than 32 values, and zeros.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn load_some(values: &[f32]) -> [__m256; 4] {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    [0, 1, 2, 3].map(|idx| {
        let left = values.len().saturating_sub(8 * idx) as i32;
        let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), lanes);
        let from = values.as_ptr().wrapping_add(8 * idx);
        // SAFETY: the lanes of the mask are values of the slice; the others are not touched.
        unsafe { _mm256_maskload_ps(from, mask) }
    })
}
