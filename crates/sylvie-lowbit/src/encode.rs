//! From rows to bytes.

use sylvie_random::Family;

use crate::codec::n_matrix_rows;
use crate::levels::Levels;
use crate::{EncodeError, RowCodec, Width, float_rows};

impl RowCodec {
    /// Encodes rows `row_ids` of `x`: row `i` of the message is row `row_ids[i]` of `x`.
    ///
    /// At quantised widths value `j` of row `i` is rounded with word `j % 4` of
    /// `draws.block(row_keys[i], j / 4)`; at floating-point widths nothing is drawn.
    ///
    /// # Shapes
    /// `x`: row-major, `n_cols` wide. `row_keys`: as many as `row_ids`. `out`:
    /// `message_bytes(row_ids.len(), n_cols)` bytes, all of which are written.
    /// # Cost
    /// Two reads of each row, the second from cache, and a random block for every four values; no
    /// allocation.
    /// # Errors
    /// The first row that cannot be encoded. [`EncodeError::NotFinite`]: it holds a NaN or an
    /// infinity. [`EncodeError::MetadataOverflow`]: its zero point or scale is infinite in the
    /// metadata type. [`EncodeError::RangeOverflow`]: its range or its highest level is infinite in
    /// `f32`. [`EncodeError::ValueOverflow`]: a value is infinite at a half-precision width. `out` is
    /// then partly written.
    /// # Panics
    /// If a length does not fit the others, a row id is not a row of `x`, or a row is longer than
    /// 2^34 columns.
    /// # Paper
    /// Equations 3 and 4, with the probability taken between the two decoded levels.
    pub fn encode_rows(
        &self,
        x: &[f32],
        n_cols: usize,
        row_ids: &[u32],
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        let (n_ids, n_keys) = (row_ids.len(), row_keys.len());
        assert!(n_ids == n_keys, "{n_ids} row ids with {n_keys} row keys");
        let n_rows = n_matrix_rows(x.len(), n_cols);
        let gather = |row_idx: usize| {
            let id = row_ids[row_idx] as usize;
            match n_rows {
                None => x,
                Some(n_rows) => {
                    assert!(id < n_rows, "row {id} of a matrix of {n_rows} rows");
                    &x[id * n_cols..(id + 1) * n_cols]
                }
            }
        };
        self.encode(gather, n_cols, row_keys, draws, out)
    }

    /// Encodes all rows of `x` in order; otherwise as [`Self::encode_rows`].
    ///
    /// # Shapes
    /// `x`: `row_keys.len() x n_cols`, row-major. `out`: `message_bytes(row_keys.len(), n_cols)`
    /// bytes.
    /// # Errors
    /// As [`Self::encode_rows`].
    /// # Panics
    /// If a length does not fit the others, or a row is longer than 2^34 columns.
    pub fn encode_all(
        &self,
        x: &[f32],
        n_cols: usize,
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        let n_keys = row_keys.len();
        if let Some(n_rows) = n_matrix_rows(x.len(), n_cols) {
            assert!(n_rows == n_keys, "matrix of {n_rows} rows with {n_keys} row keys");
        }
        let in_order = |row_idx: usize| &x[row_idx * n_cols..(row_idx + 1) * n_cols];
        self.encode(in_order, n_cols, row_keys, draws, out)
    }

    /// Encodes `row(0)`, `row(1)`, ... with their keys.
    fn encode<'x>(
        &self,
        row: impl Fn(usize) -> &'x [f32],
        n_cols: usize,
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        self.assert_message_len(out.len(), row_keys.len(), n_cols);
        assert!(u32::try_from(n_cols / 4).is_ok(), "row of {n_cols} columns, more than 2^34");
        for (row_idx, &key) in row_keys.iter().enumerate() {
            let place = self.place(row_keys.len(), n_cols, row_idx);
            let values = row(row_idx);
            let payload = &mut out[place.payload()];
            let Some(max_code) = self.width.max_code() else {
                float_rows::encode(values, row_idx, self.width, payload)?;
                continue;
            };
            let levels = Levels::enclose(values, row_idx, max_code, self.metadata)?;
            match self.width {
                Width::One => quantize::<1>(values, levels, draws, key, payload),
                Width::Two => quantize::<2>(values, levels, draws, key, payload),
                Width::Four => quantize::<4>(values, levels, draws, key, payload),
                _ => quantize::<8>(values, levels, draws, key, payload),
            }
            let (zero, scale) = out[place.metadata()].split_at_mut(self.metadata.bytes());
            self.metadata.write(levels.zero, zero);
            self.metadata.write(levels.scale, scale);
        }
        Ok(())
    }
}

/// Writes the codes of one row at `BITS` bits each. Where all levels are one, the codes are 0.
fn quantize<const BITS: usize>(
    row: &[f32],
    levels: Levels,
    draws: Family,
    key: u32,
    payload: &mut [u8],
) {
    if levels.scale == 0.0 {
        payload.fill(0);
        return;
    }
    let max_code = (1 << BITS) - 1;
    let reciprocal = 1.0 / f64::from(levels.scale);
    // Eight values take `BITS` bytes and two random blocks.
    for (chunk_idx, (values, bytes)) in row.chunks(8).zip(payload.chunks_mut(BITS)).enumerate() {
        let mut packed = 0_u64;
        for (half_idx, values) in values.chunks(4).enumerate() {
            let words = draws.block(key, (2 * chunk_idx + half_idx) as u32);
            for (idx, (&value, word)) in values.iter().zip(words).enumerate() {
                let code = levels.round(value, reciprocal, max_code, word);
                packed |= u64::from(code) << ((4 * half_idx + idx) * BITS);
            }
        }
        for (idx, byte) in bytes.iter_mut().enumerate() {
            *byte = (packed >> (8 * idx)) as u8;
        }
    }
}
