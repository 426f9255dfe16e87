//! Decoding at quantised widths.

use core::arch::x86_64::*;

use super::Avx2;
use crate::decode::Target;
use crate::levels::Levels;
use crate::{DecodeError, RowCodec, Width};

/// Values of a row group that is decoded into cache before it is streamed out.
const SCRATCH: usize = 2048;

/// What becomes of a decoded value.
const ASSIGN: u8 = 0;
const ADD: u8 = 1;
/// Assigned past the caches; the memory is a multiple of 16 bytes.
const STREAM: u8 = 2;

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
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        unsafe { decode_rows::<ASSIGN>(codec, message, n_rows, n_cols, out) }
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
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        unsafe { add_rows(codec, message, target, row_ids, out) }
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
        let aligned = n_cols.is_multiple_of(8) && out.as_ptr().addr().is_multiple_of(16);
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        let result = unsafe {
            if aligned {
                decode_rows::<STREAM>(codec, message, n_rows, n_cols, out)
            } else {
                stream_groups(codec, message, n_rows, n_cols, out)
            }
        };
        // Whoever is told that the rows are there may be another thread.
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _mm_sfence() };
        result
    }
}

/// The levels and the codes of one row.
type Coded<'m> = (Levels, &'m [u8]);

#[inline]
fn coded_row(
    codec: RowCodec,
    message: &[u8],
    n_rows: usize,
    row_idx: usize,
    n_cols: usize,
) -> Result<Coded<'_>, DecodeError> {
    let place = codec.place(n_rows, n_cols, row_idx);
    let levels = codec.read_levels(&message[place.metadata()], row_idx)?;
    Ok((levels, &message[place.payload()]))
}

#[target_feature(enable = "avx2,fma")]
fn decode_rows<const PUT: u8>(
    codec: RowCodec,
    message: &[u8],
    n_rows: usize,
    n_cols: usize,
    out: &mut [f32],
) -> Result<(), DecodeError> {
    for row_idx in 0..n_rows {
        let coded = coded_row(codec, message, n_rows, row_idx, n_cols)?;
        decode::<PUT>(codec.width, coded, &mut out[row_idx * n_cols..][..n_cols]);
    }
    Ok(())
}

#[target_feature(enable = "avx2,fma")]
fn add_rows(
    codec: RowCodec,
    message: &[u8],
    target: Target,
    row_ids: &[u32],
    out: &mut [f32],
) -> Result<(), DecodeError> {
    for (row_idx, &id) in row_ids.iter().enumerate() {
        let row = target.row(out, id);
        let coded = coded_row(codec, message, row_ids.len(), row_idx, row.len())?;
        decode::<ADD>(codec.width, coded, row);
    }
    Ok(())
}

/// Decodes rows into cache, as many as fit, then streams them out whatever their width.
#[target_feature(enable = "avx2,fma")]
fn stream_groups(
    codec: RowCodec,
    message: &[u8],
    n_rows: usize,
    n_cols: usize,
    out: &mut [f32],
) -> Result<(), DecodeError> {
    if n_cols == 0 || n_cols > SCRATCH {
        return decode_rows::<ASSIGN>(codec, message, n_rows, n_cols, out);
    }
    let mut scratch = [0.0; SCRATCH];
    let group = SCRATCH / n_cols;
    for (group_idx, out) in out.chunks_mut(group * n_cols).enumerate() {
        let mut decoded = Ok(());
        let mut n_values = 0;
        while n_values < out.len() && decoded.is_ok() {
            let row_idx = group_idx * group + n_values / n_cols;
            let row = &mut scratch[n_values..][..n_cols];
            decoded = coded_row(codec, message, n_rows, row_idx, n_cols)
                .map(|coded| decode::<ASSIGN>(codec.width, coded, row));
            n_values += if decoded.is_ok() { n_cols } else { 0 };
        }
        stream_copy(&scratch[..n_values], &mut out[..n_values]);
        decoded?;
    }
    Ok(())
}

/// Copies past the caches: whole cache lines of `to` so, its two ends as usual.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn stream_copy(from: &[f32], to: &mut [f32]) {
    let head = (to.as_ptr().addr().wrapping_neg() % 64 / 4).min(to.len());
    let (from_head, from) = from.split_at(head);
    let (to_head, to) = to.split_at_mut(head);
    to_head.copy_from_slice(from_head);
    let (lines, tail) = to.as_chunks_mut::<8>();
    let (from_lines, from_tail) = from.as_chunks::<8>();
    for (line, from) in lines.iter_mut().zip(from_lines) {
        // SAFETY: `from` is 32 bytes of readable memory; the load needs no alignment.
        let values = unsafe { _mm256_loadu_ps(from.as_ptr()) };
        // SAFETY: `line` is 32 bytes that may be written, a multiple of 32 bytes after the end of
        // `to_head`, which is a multiple of 64 wherever there are lines.
        unsafe { _mm256_stream_ps(line.as_mut_ptr(), values) }
    }
    tail.copy_from_slice(from_tail);
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn decode<const PUT: u8>(width: Width, (levels, codes): Coded<'_>, row: &mut [f32]) {
    match width {
        Width::One => one_bit::<PUT>(levels, codes, row),
        Width::Two => two_bits::<PUT>(levels, codes, row),
        Width::Four => four_bits::<PUT>(levels, codes, row),
        _ => eight_bits::<PUT>(levels, codes, row),
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn one_bit<const PUT: u8>(levels: Levels, codes: &[u8], row: &mut [f32]) {
    let zero = _mm256_set1_ps(levels.value(0));
    let change = _mm256_xor_ps(zero, _mm256_set1_ps(levels.value(1)));
    each_eight::<1, PUT>(codes, row, |&[byte]| {
        let mask = load(&MASKS.0[usize::from(byte)]);
        _mm256_xor_ps(zero, _mm256_and_ps(mask, change))
    });
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn two_bits<const PUT: u8>(levels: Levels, codes: &[u8], row: &mut [f32]) {
    let [a, b, c, d] = [0, 1, 2, 3].map(|code| levels.value(code));
    let table = _mm256_setr_ps(a, b, c, d, a, b, c, d);
    let shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    each_eight::<2, PUT>(codes, row, |&bytes| {
        let all = _mm256_set1_epi32(i32::from(u16::from_le_bytes(bytes)));
        // Only the two lowest bits of a lane choose.
        _mm256_permutevar_ps(table, _mm256_srlv_epi32(all, shifts))
    });
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn four_bits<const PUT: u8>(levels: Levels, codes: &[u8], row: &mut [f32]) {
    let shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    let code_mask = _mm256_set1_epi32(15);
    each_eight::<4, PUT>(codes, row, |&bytes| {
        let all = _mm256_set1_epi32(i32::from_le_bytes(bytes));
        values(levels, _mm256_and_si256(_mm256_srlv_epi32(all, shifts), code_mask))
    });
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn eight_bits<const PUT: u8>(levels: Levels, codes: &[u8], row: &mut [f32]) {
    each_eight::<8, PUT>(codes, row, |&bytes| {
        values(levels, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(bytes))))
    });
}

/// What codes stand for: a multiplication, then an addition, not fused.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn values(levels: Levels, codes: __m256i) -> __m256 {
    let (zero, scale) = (_mm256_set1_ps(levels.zero), _mm256_set1_ps(levels.scale));
    _mm256_add_ps(zero, _mm256_mul_ps(_mm256_cvtepi32_ps(codes), scale))
}

/// Decodes eight values from each `BITS` bytes; of the last bytes, as many as the row has.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn each_eight<const BITS: usize, const PUT: u8>(
    codes: &[u8],
    row: &mut [f32],
    decode: impl Fn(&[u8; BITS]) -> __m256,
) {
    let (chunks, rest) = row.as_chunks_mut::<8>();
    let (bytes, rest_bytes) = codes.as_chunks::<BITS>();
    for (chunk, bytes) in chunks.iter_mut().zip(bytes) {
        put::<PUT>(decode(bytes), chunk);
    }
    if !rest.is_empty() {
        let mut last = [0; BITS];
        match bytes.get(chunks.len()) {
            Some(bytes) => last = *bytes,
            None => last[..rest_bytes.len()].copy_from_slice(rest_bytes),
        }
        let mut values = [0.0; 8];
        values[..rest.len()].copy_from_slice(rest);
        if PUT == ADD {
            put::<ADD>(decode(&last), &mut values);
        } else {
            put::<ASSIGN>(decode(&last), &mut values);
        }
        rest.copy_from_slice(&values[..rest.len()]);
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn put<const PUT: u8>(values: __m256, slots: &mut [f32; 8]) {
    let values = if PUT == ADD { _mm256_add_ps(load(slots), values) } else { values };
    if PUT == STREAM {
        let (low, high) = (_mm256_castps256_ps128(values), _mm256_extractf128_ps::<1>(values));
        let (first, second) = slots.split_at_mut(4);
        // SAFETY: `first` is 16 bytes that may be written; whoever streams passes rows whose eights
        // begin at multiples of 16 bytes.
        unsafe { _mm_stream_ps(first.as_mut_ptr(), low) }
        // SAFETY: the same of `second`, 16 bytes on.
        unsafe { _mm_stream_ps(second.as_mut_ptr(), high) }
    } else {
        // SAFETY: `slots` is 32 bytes that may be written; the store needs no alignment.
        unsafe { _mm256_storeu_ps(slots.as_mut_ptr(), values) }
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(values: &[f32; 8]) -> __m256 {
    // SAFETY: `values` is 32 bytes of readable memory; the load needs no alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

/// For every byte, eight lanes of all ones where its bit is set.
#[repr(align(32))]
struct Masks([[f32; 8]; 256]);

static MASKS: Masks = Masks(masks());

const fn masks() -> [[f32; 8]; 256] {
    let mut masks = [[0.0; 8]; 256];
    let mut at = 0;
    while at < 256 * 8 {
        if (at / 8) >> (at % 8) & 1 == 1 {
            masks[at / 8][at % 8] = f32::from_bits(u32::MAX);
        }
        at += 1;
    }
    masks
}
