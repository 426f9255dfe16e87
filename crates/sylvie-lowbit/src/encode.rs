//! From rows to bytes.

use sylvie_random::Family;

use crate::codec::n_matrix_rows;
use crate::draws::{BLOCK_VALUES, RowDraws};
use crate::engine::Engine;
use crate::levels::Levels;
use crate::{EncodeError, RowCodec, Width, float_rows};

impl RowCodec {
    /// Encodes rows `row_ids` of `x`: row `i` of the message is row `row_ids[i]` of `x`.
    ///
    /// At quantised widths value `j` of row `i` is rounded with byte `j % 16` of
    /// `draws.short_block(row_keys[i], j / 16)`, and 16 bits of another block where that byte does not
    /// decide; at floating-point widths nothing is drawn.
    ///
    /// # Shapes
    /// `x`: row-major, `n_cols` wide. `row_keys`: as many as `row_ids`. `out`:
    /// `message_bytes(row_ids.len(), n_cols)` bytes, all of which are written.
    /// # Cost
    /// Two reads of each row, the second from cache, and a random block for every 16 values; no
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
    ///
    /// # Example
    /// ```
    /// use sylvie_lowbit::{EncodeError, RowCodec, Width};
    /// use sylvie_random::{Coordinates, Stream};
    ///
    /// let codec = RowCodec::new(Width::Four);
    /// let draws = Coordinates::new(7, Stream::Rounding).family();
    /// let x = [0.0, 1.5, 3.0, f32::NAN, 1.0, 2.0]; // 2 rows of 3 columns
    /// let mut message = vec![0; codec.message_bytes(1, 3)];
    /// assert_eq!(message.len(), 4 + 2);
    /// codec.encode_rows(&x, 3, &[0], &[1000], draws, &mut message)?;
    /// let refused = codec.encode_rows(&x, 3, &[1], &[1001], draws, &mut message);
    /// assert_eq!(refused, Err(EncodeError::NotFinite { row: 0, column: 0 }));
    /// # Ok::<(), EncodeError>(())
    /// ```
    pub fn encode_rows(
        &self,
        x: &[f32],
        n_cols: usize,
        row_ids: &[u32],
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        self.encode_rows_by(Engine::detect(), x, n_cols, row_ids, row_keys, draws, out)
    }

    #[expect(clippy::too_many_arguments, reason = "those of `encode_rows`, and who does it")]
    pub(crate) fn encode_rows_by(
        &self,
        engine: Engine,
        x: &[f32],
        n_cols: usize,
        row_ids: &[u32],
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        let (n_ids, n_keys) = (row_ids.len(), row_keys.len());
        assert!(n_ids == n_keys, "{n_ids} row ids with {n_keys} row keys");
        let rows = Gathered { x, n_rows: n_matrix_rows(x.len(), n_cols), n_cols, row_ids };
        self.encode(engine, &rows, n_cols, row_keys, draws, out)
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
    ///
    /// # Example
    /// ```
    /// use sylvie_lowbit::{EncodeError, RowCodec, Width};
    /// use sylvie_random::{Coordinates, Stream};
    ///
    /// let codec = RowCodec::new(Width::One);
    /// let draws = |epoch| Coordinates { epoch, ..Coordinates::new(7, Stream::Rounding) }.family();
    /// let (x, keys) = ([0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0], [1000]);
    /// let encoded = |epoch| {
    ///     let mut message = vec![0; codec.message_bytes(1, 8)];
    ///     codec.encode_all(&x, 8, &keys, draws(epoch), &mut message).map(|()| message)
    /// };
    /// assert_eq!(encoded(0)?, encoded(0)?); // the same draws, the same bytes
    /// assert!((1..20).any(|epoch| encoded(epoch) != encoded(0)));
    /// # Ok::<(), EncodeError>(())
    /// ```
    pub fn encode_all(
        &self,
        x: &[f32],
        n_cols: usize,
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        self.encode_all_by(Engine::detect(), x, n_cols, row_keys, draws, out)
    }

    pub(crate) fn encode_all_by(
        &self,
        engine: Engine,
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
        self.encode(engine, &InOrder { x, n_cols }, n_cols, row_keys, draws, out)
    }

    /// Encodes rows 0, 1, ... with their keys.
    fn encode<'x>(
        &self,
        engine: Engine,
        rows: &impl Rows<'x>,
        n_cols: usize,
        row_keys: &[u32],
        family: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        self.assert_message_len(out.len(), row_keys.len(), n_cols);
        assert!(u32::try_from(n_cols / 4).is_ok(), "row of {n_cols} columns, more than 2^34");
        #[cfg(target_arch = "x86_64")]
        if let (Engine::Avx2(avx2), true) = (engine, self.width.is_quantized()) {
            return avx2.encode(*self, rows, n_cols, row_keys, family, out);
        }
        for (row_idx, &key) in row_keys.iter().enumerate() {
            let place = self.place(row_keys.len(), n_cols, row_idx);
            engine.ask(row_idx, n_cols, |row_idx| rows.upcoming(row_idx));
            let values = rows.row(row_idx);
            let payload = &mut out[place.payload()];
            let Some(max_code) = self.width.max_code() else {
                float_rows::encode(values, row_idx, self.width, payload)?;
                continue;
            };
            let levels = Levels::enclose(values, row_idx, max_code, self.metadata)?;
            let draws = RowDraws { family, key };
            match self.width {
                Width::One => quantize::<1>(values, levels, draws, payload),
                Width::Two => quantize::<2>(values, levels, draws, payload),
                Width::Four => quantize::<4>(values, levels, draws, payload),
                _ => quantize::<8>(values, levels, draws, payload),
            }
            self.metadata.write_pair(levels, &mut out[place.metadata()]);
        }
        Ok(())
    }
}

/// The rows to encode.
pub(crate) trait Rows<'x> {
    /// Row `row_idx` of the message.
    fn row(&self, row_idx: usize) -> &'x [f32];

    /// The matrix, and which of its rows is row `row_idx` of the message; `None` beyond the last. For
    /// fetching a row before its turn: nothing says that the matrix has it.
    fn upcoming(&self, row_idx: usize) -> Option<(&'x [f32], usize)>;
}

/// All rows of a matrix.
struct InOrder<'x> {
    x: &'x [f32],
    n_cols: usize,
}

impl<'x> Rows<'x> for InOrder<'x> {
    #[inline]
    fn row(&self, row_idx: usize) -> &'x [f32] {
        &self.x[row_idx * self.n_cols..(row_idx + 1) * self.n_cols]
    }

    #[inline]
    fn upcoming(&self, row_idx: usize) -> Option<(&'x [f32], usize)> {
        Some((self.x, row_idx))
    }
}

/// Chosen rows of a matrix.
struct Gathered<'x> {
    x: &'x [f32],
    /// `None` without columns.
    n_rows: Option<usize>,
    n_cols: usize,
    row_ids: &'x [u32],
}

impl<'x> Rows<'x> for Gathered<'x> {
    #[inline]
    fn row(&self, row_idx: usize) -> &'x [f32] {
        let id = self.row_ids[row_idx] as usize;
        let Some(n_rows) = self.n_rows else { return self.x };
        assert!(id < n_rows, "row {id} of a matrix of {n_rows} rows");
        &self.x[id * self.n_cols..(id + 1) * self.n_cols]
    }

    #[inline]
    fn upcoming(&self, row_idx: usize) -> Option<(&'x [f32], usize)> {
        Some((self.x, *self.row_ids.get(row_idx)? as usize))
    }
}

/// Writes the codes of one row at `BITS` bits each. Where all levels are one, the codes are 0.
pub(crate) fn quantize<const BITS: usize>(
    row: &[f32],
    levels: Levels,
    draws: RowDraws,
    payload: &mut [u8],
) {
    if levels.scale == 0.0 {
        payload.fill(0);
        return;
    }
    let max_code = (1 << BITS) - 1;
    let reciprocal = 1.0 / f64::from(levels.scale);
    // Eight values take `BITS` bytes and half a random block.
    let mut random = [0; BLOCK_VALUES];
    for (chunk_idx, (values, bytes)) in row.chunks(8).zip(payload.chunks_mut(BITS)).enumerate() {
        if chunk_idx % 2 == 0 {
            random = draws.bytes(chunk_idx / 2);
        }
        let mut packed = 0_u64;
        for (idx, (&value, &byte)) in values.iter().zip(&random[chunk_idx % 2 * 8..]).enumerate() {
            let tie = || draws.tie(8 * chunk_idx + idx);
            let code = levels.round(value, reciprocal, max_code, byte, tie);
            packed |= u64::from(code) << (idx * BITS);
        }
        for (idx, byte) in bytes.iter_mut().enumerate() {
            *byte = (packed >> (8 * idx)) as u8;
        }
    }
}
