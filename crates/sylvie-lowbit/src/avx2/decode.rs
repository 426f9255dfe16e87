//! Decoding at quantised widths.

use core::arch::x86_64::*;

use super::levels::{Batch, ROWS, RowLevels};
use super::{Avx2, prefetch, rows_ahead};
use crate::decode::Target;
use crate::{DecodeError, RowCodec, Width};

/// Values whose codes are looked at together: `4 * BITS` bytes.
pub(super) const CHUNK: usize = 32;
/// Bytes of the codes of a chunk at the largest width, and what loads read beyond them.
const CHUNK_BYTES: usize = 40;

impl Avx2 {
    /// Decodes a message of the right length into `out`, which is assigned.
    pub(crate) fn decode(
        self,
        codec: RowCodec,
        message: &[u8],
        n_rows: usize,
        n_cols: usize,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        let message = Message::new(codec, message, n_rows, n_cols);
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        unsafe {
            match codec.width {
                Width::One => message.assign_rows::<1>(out),
                Width::Two => message.assign_rows::<2>(out),
                Width::Four => message.assign_rows::<4>(out),
                _ => message.assign_rows::<8>(out),
            }
        }
    }

    /// Adds the rows of a message of the right length to rows `row_ids` of `out`.
    pub(crate) fn decode_add(
        self,
        codec: RowCodec,
        message: &[u8],
        target: Target,
        row_ids: &[u32],
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        let message = Message::new(codec, message, row_ids.len(), target.n_cols());
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        unsafe {
            match codec.width {
                Width::One => message.add_rows::<1>(target, row_ids, out),
                Width::Two => message.add_rows::<2>(target, row_ids, out),
                Width::Four => message.add_rows::<4>(target, row_ids, out),
                _ => message.add_rows::<8>(target, row_ids, out),
            }
        }
    }

    /// Decodes a message of the right length into `out`, past the caches.
    pub(crate) fn decode_streaming(
        self,
        codec: RowCodec,
        message: &[u8],
        n_rows: usize,
        n_cols: usize,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        let message = Message::new(codec, message, n_rows, n_cols);
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        unsafe {
            match codec.width {
                Width::One => message.stream_rows::<1>(out),
                Width::Two => message.stream_rows::<2>(out),
                Width::Four => message.stream_rows::<4>(out),
                _ => message.stream_rows::<8>(out),
            }
        }
    }
}

/// A message of the right length, and its shape.
#[derive(Clone, Copy)]
pub(super) struct Message<'m> {
    codec: RowCodec,
    metadata: &'m [u8],
    payload: &'m [u8],
    pub(super) n_cols: usize,
}

impl<'m> Message<'m> {
    fn new(codec: RowCodec, message: &'m [u8], n_rows: usize, n_cols: usize) -> Self {
        let (metadata, payload) = message.split_at(codec.metadata_bytes(n_rows));
        Self { codec, metadata, payload, n_cols }
    }

    /// Calls `decode` with each row's index, its levels, and the codes from its own to the message's end.
    ///
    /// # Errors
    /// [`DecodeError::InvalidMetadata`] of the first row that no encoder writes, when all before it have
    /// been decoded.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn each_row<const BITS: usize>(
        self,
        mut decode: impl FnMut(usize, RowLevels, &[u8]),
    ) -> Result<(), DecodeError> {
        let row_bytes = self.codec.row_payload_bytes(self.n_cols);
        let metadata_bytes = self.codec.row_metadata_bytes();
        for (batch_idx, bytes) in self.metadata.chunks(ROWS * metadata_bytes).enumerate() {
            let batch = Batch::read(self.codec.metadata, self.codec.width, bytes);
            let first = batch_idx * ROWS;
            for idx in 0..batch.n_valid {
                let row = first + idx;
                decode(row, batch.row::<BITS>(idx), &self.payload[row * row_bytes..]);
            }
            if batch.n_valid * metadata_bytes < bytes.len() {
                return Err(DecodeError::InvalidMetadata { row: first + batch.n_valid });
            }
        }
        Ok(())
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn assign_rows<const BITS: usize>(self, out: &mut [f32]) -> Result<(), DecodeError> {
        let ahead = rows_ahead(self.n_cols);
        self.each_row::<BITS>(|row_idx, levels, codes| {
            prefetch(out, row_idx + ahead, self.n_cols);
            let row = &mut out[row_idx * self.n_cols..][..self.n_cols];
            put_row::<BITS, false>(levels, codes, row);
        })
    }

    #[target_feature(enable = "avx2,fma")]
    fn add_rows<const BITS: usize>(
        self,
        target: Target,
        row_ids: &[u32],
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        let ahead = rows_ahead(self.n_cols);
        self.each_row::<BITS>(|row_idx, levels, codes| {
            if let Some(&id) = row_ids.get(row_idx + ahead) {
                prefetch(out, id as usize, self.n_cols);
            }
            put_row::<BITS, true>(levels, codes, target.row(out, row_ids[row_idx]));
        })
    }
}

/// Assigns or adds one row, whose codes are the first of `codes`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn put_row<const BITS: usize, const ADD: bool>(levels: RowLevels, codes: &[u8], row: &mut [f32]) {
    let (chunks, rest) = row.as_chunks_mut::<CHUNK>();
    let (whole, rest_codes) = codes.split_at(chunks.len() * 4 * BITS);
    for (chunk, codes) in chunks.iter_mut().zip(whole.chunks_exact(4 * BITS)) {
        for (part, eight) in chunk.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let values = levels.eight_of::<BITS, false>(codes, 0, part);
            put::<ADD>(values, eight);
        }
    }
    if !rest.is_empty() {
        with_codes(rest_codes, 4 * BITS, |codes| {
            for (part, some) in rest.chunks_mut(8).enumerate() {
                let values = levels.eight_of::<BITS, false>(codes, 0, part);
                put_some::<ADD>(values, some);
            }
        });
    }
}

/// Assigns or adds the first of eight values, as many as there are slots. Not by a masked store, which
/// waits for all stores before it on some processors.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn put_some<const ADD: bool>(values: __m256, slots: &mut [f32]) {
    if let Some(slots) = slots.first_chunk_mut::<8>() {
        return put::<ADD>(values, slots);
    }
    let mut eight = [0.0; 8];
    put::<false>(values, &mut eight);
    for (slot, value) in slots.iter_mut().zip(eight) {
        *slot = if ADD { *slot + value } else { value };
    }
}

/// Assigns or adds eight values.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn put<const ADD: bool>(values: __m256, slots: &mut [f32; 8]) {
    let values = if ADD { _mm256_add_ps(load(slots), values) } else { values };
    // SAFETY: `slots` is 32 bytes that may be written; the store needs no alignment.
    unsafe { _mm256_storeu_ps(slots.as_mut_ptr(), values) }
}

/// A mask of the first `n` of eight lanes; of all where there are more.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn first_lanes(n: usize) -> __m256 {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n.min(8) as i32), lanes))
}

/// Calls `decode` with the first `n_bytes` of `codes`, or with all of them and zeros after them.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn with_codes(codes: &[u8], n_bytes: usize, decode: impl FnOnce(&[u8])) {
    match codes.get(..n_bytes) {
        Some(codes) => decode(codes),
        None => {
            let mut padded = [0; CHUNK_BYTES];
            padded[..codes.len()].copy_from_slice(codes);
            decode(&padded[..n_bytes]);
        }
    }
}

impl RowLevels {
    /// Eight values of a chunk, the first of which begins at bit `shift` of `codes`: those of part 0, 1, 2
    /// or 3. `codes` has `4 * BITS` bytes, and 4 more where it is `SHIFTED`; at eight bits it never is.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn eight_of<const BITS: usize, const SHIFTED: bool>(
        self,
        codes: &[u8],
        shift: u32,
        part: usize,
    ) -> __m256 {
        let word = |at: usize| {
            if BITS == 8 || SHIFTED {
                let bytes = codes[at..].first_chunk().expect("as many codes as a chunk has");
                u64::from_le_bytes(*bytes) >> shift
            } else {
                let bytes = codes[at..].first_chunk().expect("as many codes as a chunk has");
                u64::from(u32::from_le_bytes(*bytes))
            }
        };
        match BITS {
            1 => self.eight::<BITS>(word(0), part),
            2 => self.eight::<BITS>(word(part / 2 * 4), part % 2),
            4 => self.eight::<BITS>(word(part * 4), 0),
            _ => self.eight::<BITS>(word(part * 8), 0),
        }
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(values: &[f32; 8]) -> __m256 {
    // SAFETY: `values` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}
