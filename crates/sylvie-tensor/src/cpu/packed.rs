//! Sums over neighbours from rows of 1, 2, 4 or 8 bits a value, which are decoded in registers as they are
//! gathered.
//!
//! No operation is fused or reordered, neither between the version for every machine and that for AVX2 nor
//! against decoding first: the bits are those of sums of decoded rows.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sylvie_lowbit::{DecodeError, RowCodec, Width};
use sylvie_random::Family;

use super::kernels::{Mask, kept_columns};
use super::threads::CHUNK_ROWS;
use super::{CpuBackend, CpuMatrix};

mod lanes;
mod sums;

use sums::{BLOCK, BLOCK_WORDS, Gathered, add_codes};

/// Rows as their codec packed them.
///
/// Clones share the codes.
///
/// # Example
/// ```
/// use sylvie_lowbit::{RowCodec, Width};
/// use sylvie_random::{Coordinates, Stream};
/// use sylvie_tensor::{Backend, CpuBackend, CpuPacked, Wire};
///
/// let backend = CpuBackend::new(1);
/// let (codec, draws) = (RowCodec::new(Width::One), Coordinates::new(1, Stream::Rounding).family());
/// // At one bit a row's two ends are exact.
/// let (x, keys) = (backend.upload(2, 2, &[0.0, 1.0, 7.0, 5.0]), backend.upload_index(&[40, 42]));
/// let message = backend.encode_all_rows(codec, &x, &keys, draws, Vec::new())?;
/// let rows: CpuPacked = backend.packed_rows(codec, &message, (2, 2))?;
/// assert_eq!(backend.packed_shape(&rows), (2, 2));
/// assert_eq!(backend.download(&backend.unpacked(&rows)), [0.0, 1.0, 7.0, 5.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CpuPacked {
    rows: Arc<Codes>,
    kept: Option<Arc<Kept>>,
}

struct Codes {
    bits: usize,
    n_cols: usize,
    /// A row's codes, from the lowest bit on, filled up to whole blocks.
    words: CpuMatrix,
    /// Of each row: its two values at one bit, else zero point and scale.
    levels: CpuMatrix,
}

/// What dropout keeps.
struct Kept {
    /// A bit a column, filled up to whole blocks.
    words: CpuMatrix,
    /// What values that stay are multiplied by.
    scale: f32,
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

fn words(x: &CpuMatrix) -> &[u32] {
    bytemuck::cast_slice(x.values())
}

impl CpuPacked {
    /// Takes the rows of a message, whose levels are checked.
    ///
    /// # Errors
    /// A message that is not one of that many rows.
    /// # Panics
    /// If the codec is none of 1, 2, 4 or 8 bits.
    pub(super) fn of_message(
        cpu: &CpuBackend,
        codec: RowCodec,
        message: &[u8],
        (n_rows, n_cols): (usize, usize),
    ) -> Result<Self, DecodeError> {
        let bits = codec.width.bits();
        let mut levels = CpuMatrix::to_assign(&cpu.pool, n_rows, 2);
        let pairs = levels.values_mut().as_chunks_mut::<2>().0;
        codec.read_row_levels(message, n_cols, pairs)?;
        if bits == 1 {
            for [zero, scale] in pairs {
                (*zero, *scale) = (*zero + 0.0 * *scale, *zero + *scale);
            }
        }
        let n_words = n_cols.div_ceil(BLOCK) * BLOCK_WORDS * bits;
        let mut words = CpuMatrix::to_assign(&cpu.pool, n_rows, n_words);
        let (payload, row_bytes) =
            (&message[codec.metadata_bytes(n_rows)..], codec.row_payload_bytes(n_cols));
        let values: &mut [u32] = bytemuck::cast_slice_mut(words.values_mut());
        cpu.threads.row_chunks(values, n_words, CHUNK_ROWS, |first, rows| {
            let codes = payload[first * row_bytes..].chunks_exact(row_bytes);
            for (row, bytes) in rows.chunks_exact_mut(n_words).zip(codes) {
                copy_codes(bytes, row);
            }
        });
        let rows = Arc::new(Codes { bits, n_cols, words, levels });
        Ok(Self { rows, kept: None })
    }

    /// The rows after dropout.
    ///
    /// # Panics
    /// If it was done to them before, or there is not a key for each row.
    pub(super) fn dropped(&self, cpu: &CpuBackend, rate: f32, draws: Family, keys: &[u32]) -> Self {
        assert!(self.kept.is_none(), "dropout of packed rows that were dropped before");
        assert_eq!(keys.len(), self.n_rows(), "keys and rows of dropout");
        let mask = Mask::new(rate, draws);
        let n_words = self.n_cols().div_ceil(BLOCK) * BLOCK_WORDS;
        let mut words = CpuMatrix::to_assign(&cpu.pool, keys.len(), n_words);
        let values: &mut [u32] = bytemuck::cast_slice_mut(words.values_mut());
        cpu.threads.row_chunks(values, n_words, CHUNK_ROWS, |first, rows| {
            for (row, &key) in rows.chunks_exact_mut(n_words).zip(&keys[first..]) {
                kept_columns(mask, key, row);
            }
        });
        let kept = Some(Arc::new(Kept { words, scale: mask.scale() }));
        Self { rows: Arc::clone(&self.rows), kept }
    }

    /// The rows as floats.
    pub(super) fn unpacked(&self, cpu: &CpuBackend) -> CpuMatrix {
        let mut out = CpuMatrix::to_assign(&cpu.pool, self.n_rows(), self.n_cols());
        super::row_wise::each_row(&cpu.threads, &mut out, |row, values| {
            for (column, value) in values.iter_mut().enumerate() {
                *value = self.value(row, column);
            }
        });
        out
    }

    /// One value.
    fn value(&self, row: usize, column: usize) -> f32 {
        let Codes { bits, words: codes, levels, .. } = &*self.rows;
        let bit = column * bits;
        let code = words(codes)[row * codes.n_cols() + bit / 32] >> (bit % 32) & ((1 << bits) - 1);
        let value = match (bits, levels.row(row)) {
            (1, levels) => levels[code as usize],
            (_, levels) => levels[0] + code as f32 * levels[1],
        };
        let Some(Kept { words: kept, scale }) = self.kept.as_deref() else { return value };
        let is_kept = words(kept)[row * kept.n_cols() + column / 32] >> (column % 32) & 1 == 1;
        value * if is_kept { *scale } else { 0.0 }
    }

    /// Whether sums of such rows are expected to take no longer than decoding them and summing floats: with AVX2, at widths
    /// whose values are taken from a register or are whole bytes, and where few columns are added to fill the last block.
    pub(super) fn pays(width: Width, n_cols: usize) -> bool {
        let is_fast = matches!(width, Width::One | Width::Two | Width::Eight) && has_avx2();
        let rest = n_cols % BLOCK;
        let n_summed = n_cols - rest + rest.next_multiple_of(BLOCK / 2);
        is_fast && 3 * n_summed <= 4 * n_cols
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.rows.levels.n_rows()
    }

    /// Number of columns.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        self.rows.n_cols
    }

    /// `sums += factors[columns[edge]] * row columns[edge]` for each of `edges`, in their order; rows of
    /// factor 0 are left out. `columns` are those of all edges.
    pub(super) fn add(
        &self,
        columns: &[u32],
        edges: Range<usize>,
        factors: Option<&CpuMatrix>,
        sums: &mut [f32],
    ) {
        let Codes { bits, words: codes, levels, .. } = &*self.rows;
        let kept = self.kept.as_deref();
        let gathered = Gathered {
            columns,
            codes: words(codes),
            levels: levels.values().as_chunks::<2>().0,
            factors: factors.map(CpuMatrix::values),
            kept: kept.map_or(&[], |kept| words(&kept.words)),
            scale: kept.map_or(1.0, |kept| kept.scale),
            n_blocks: self.rows.n_cols.div_ceil(BLOCK),
        };
        add_codes(*bits, gathered, edges, sums);
    }
}

impl fmt::Debug for CpuPacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuPacked")
            .field("n_rows", &self.n_rows())
            .field("n_cols", &self.n_cols())
            .field("bits", &self.rows.bits)
            .field("is_dropped", &self.kept.is_some())
            .finish()
    }
}

/// Copies the codes of one row, and zeros after them.
fn copy_codes(bytes: &[u8], words: &mut [u32]) {
    let (whole, rest) = bytes.as_chunks::<4>();
    let (used, spare) = words.split_at_mut(whole.len());
    for (word, &bytes) in used.iter_mut().zip(whole) {
        *word = u32::from_le_bytes(bytes);
    }
    spare.fill(0);
    if let (false, Some(word)) = (rest.is_empty(), spare.first_mut()) {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        *word = u32::from_le_bytes(last);
    }
}

#[cfg(test)]
mod tests {
    use sylvie_lowbit::Width;

    use super::{CpuPacked, has_avx2};

    #[test]
    fn packing_pays_where_registers_hold_values_and_blocks_are_filled() {
        let of = |n_cols| {
            [Width::One, Width::Two, Width::Four, Width::Eight].map(|w| CpuPacked::pays(w, n_cols))
        };
        let fast = has_avx2();
        for (n_cols, expected) in
            [(0, fast), (1, false), (16, false), (24, fast), (64, fast), (65, false), (100, fast)]
        {
            assert_eq!(of(n_cols), [expected, expected, false, expected], "{n_cols} columns");
        }
        assert!(!CpuPacked::pays(Width::F32, 128));
    }
}
