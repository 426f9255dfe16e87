//! From bytes to rows.

use crate::codec::n_matrix_rows;
use crate::engine::Engine;
use crate::levels::Levels;
use crate::{DecodeError, RowCodec, Width, float_rows};

impl RowCodec {
    /// Decodes a message into `out`, which is **assigned**. What is decoded is always finite.
    ///
    /// # Shapes
    /// `out`: `n_rows x n_cols`, row-major, which also says how many rows the message must have.
    /// Without columns any whole number of rows is taken.
    /// # Cost
    /// One read of the message, one write of `out`; no allocation.
    /// # Errors
    /// [`DecodeError::WrongLength`] before a byte is used. [`DecodeError::InvalidMetadata`] or
    /// [`DecodeError::NotFinite`] for the first row that no encoder writes; rows before it have then
    /// been decoded.
    /// # Panics
    /// If `out.len()` is not a multiple of `n_cols`.
    /// # Paper
    /// Equation 5.
    ///
    /// # Example
    /// ```
    /// use sylvie_lowbit::{DecodeError, RowCodec, Width};
    /// use sylvie_random::{Coordinates, Stream};
    ///
    /// let codec = RowCodec::new(Width::F16);
    /// let draws = Coordinates::new(7, Stream::Rounding).family(); // not drawn from at 16 bits
    /// let mut message = vec![0; codec.message_bytes(2, 2)];
    /// codec.encode_all(&[0.5, 1.0, -2.0, 0.1], 2, &[0, 1], draws, &mut message)?;
    /// let mut rows = [0.0; 4];
    /// codec.decode_rows(&message, 2, &mut rows)?;
    /// assert_eq!(rows, [0.5, 1.0, -2.0, 0.099975586]);
    /// let cut = codec.decode_rows(&message[1..], 2, &mut rows);
    /// assert_eq!(cut, Err(DecodeError::WrongLength { expected: 8, found: 7 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_rows(
        &self,
        message: &[u8],
        n_cols: usize,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        self.decode_rows_by(Engine::detect(), message, n_cols, out)
    }

    pub(crate) fn decode_rows_by(
        &self,
        engine: Engine,
        message: &[u8],
        n_cols: usize,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        let n_rows = self.n_rows_of(message, n_cols, out)?;
        #[cfg(target_arch = "x86_64")]
        if let (Engine::Avx2(avx2), true) = (engine, self.width.is_quantized()) {
            return avx2.decode(*self, message, n_rows, n_cols, out);
        }
        for row_idx in 0..n_rows {
            engine.ask(row_idx, n_cols, |row_idx| Some((&*out, row_idx)));
            let row = &mut out[row_idx * n_cols..(row_idx + 1) * n_cols];
            self.decode_row(message, n_rows, row_idx, row, |slot, value| *slot = value)?;
        }
        Ok(())
    }

    /// [`Self::decode_rows`] with stores that go past the caches: faster where `out` is larger than
    /// they are, or is not read soon; slower where it would have stayed in them.
    ///
    /// # Cost
    /// One read of the message, one write of `out` without reading it first; no allocation. The same as
    /// [`Self::decode_rows`] at floating-point widths and without vector instructions.
    /// # Errors
    /// As [`Self::decode_rows`].
    /// # Panics
    /// As [`Self::decode_rows`].
    pub fn decode_rows_streaming(
        &self,
        message: &[u8],
        n_cols: usize,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        #[cfg(target_arch = "x86_64")]
        if let (Engine::Avx2(avx2), true) = (Engine::detect(), self.width.is_quantized()) {
            let n_rows = self.n_rows_of(message, n_cols, out)?;
            return avx2.decode_streaming(*self, message, n_rows, n_cols, out);
        }
        self.decode_rows(message, n_cols, out)
    }

    /// The number of rows that a message for `out` has.
    fn n_rows_of(&self, message: &[u8], n_cols: usize, out: &[f32]) -> Result<usize, DecodeError> {
        let n_rows = n_matrix_rows(out.len(), n_cols)
            .unwrap_or_else(|| message.len().checked_div(self.row_metadata_bytes()).unwrap_or(0));
        self.check_len(message, n_rows, n_cols)?;
        Ok(n_rows)
    }

    /// Adds row `i` of the message to row `row_ids[i]` of `out`, for each `i` in turn.
    ///
    /// # Shapes
    /// `out`: row-major, `n_cols` wide. The message has `row_ids.len()` rows.
    /// # Cost
    /// One read of the message, one read and write of the rows named; no allocation.
    /// # Errors
    /// As [`Self::decode_rows`]; rows before the one named have then been added.
    /// # Panics
    /// If `out.len()` is not a multiple of `n_cols`, or a row id is not a row of `out`.
    ///
    /// # Example
    /// ```
    /// use sylvie_lowbit::{RowCodec, Width};
    /// use sylvie_random::{Coordinates, Pass, Stream};
    ///
    /// // Gradients of two rows, from a reader, are added to rows 2 and 0 of their owner.
    /// let codec = RowCodec::new(Width::Two);
    /// let draws = Coordinates::new(7, Stream::Rounding).at(0, 1, Pass::Backward).family();
    /// let mut message = vec![0; codec.message_bytes(2, 2)];
    /// codec.encode_all(&[0.0, 3.0, 1.0, 4.0], 2, &[102, 100], draws, &mut message)?;
    /// let mut sums = [10.0; 6];
    /// codec.decode_add_rows(&message, 2, &[2, 0], &mut sums)?;
    /// assert_eq!(sums, [11.0, 14.0, 10.0, 10.0, 10.0, 13.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_add_rows(
        &self,
        message: &[u8],
        n_cols: usize,
        row_ids: &[u32],
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        self.decode_add_rows_by(Engine::detect(), message, n_cols, row_ids, out)
    }

    pub(crate) fn decode_add_rows_by(
        &self,
        engine: Engine,
        message: &[u8],
        n_cols: usize,
        row_ids: &[u32],
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        let target = Target { n_rows: n_matrix_rows(out.len(), n_cols), n_cols };
        self.check_len(message, row_ids.len(), n_cols)?;
        #[cfg(target_arch = "x86_64")]
        if let (Engine::Avx2(avx2), true) = (engine, self.width.is_quantized()) {
            return avx2.decode_add(*self, message, target, row_ids, out);
        }
        for (row_idx, &id) in row_ids.iter().enumerate() {
            engine.ask(row_idx, n_cols, |row_idx| Some((&*out, *row_ids.get(row_idx)? as usize)));
            let row = target.row(out, id);
            self.decode_row(message, row_ids.len(), row_idx, row, |slot, value| *slot += value)?;
        }
        Ok(())
    }

    /// Reads and checks the zero point and the scale of each row of a message: `out[i]` is those of row
    /// `i`, whose code `k` then stands for `out[i][0] + k * out[i][1]`, rounded after each operation.
    ///
    /// # Shapes
    /// `out`: one pair a row, which also says how many rows of `n_cols` columns the message must have.
    /// # Cost
    /// One read of the metadata; no allocation.
    /// # Errors
    /// As [`Self::decode_rows`]; pairs of rows before the one named have then been assigned.
    /// # Panics
    /// If rows have no levels at this width.
    pub fn read_row_levels(
        &self,
        message: &[u8],
        n_cols: usize,
        out: &mut [[f32; 2]],
    ) -> Result<(), DecodeError> {
        assert!(self.width.is_quantized(), "levels of rows of width {}", self.width);
        self.check_len(message, out.len(), n_cols)?;
        let metadata = message.chunks_exact(self.row_metadata_bytes());
        for (row_idx, (pair, bytes)) in out.iter_mut().zip(metadata).enumerate() {
            let Levels { zero, scale } = self.read_levels(bytes, row_idx)?;
            *pair = [zero, scale];
        }
        Ok(())
    }

    /// Reads and checks the zero point and the scale of a row.
    ///
    /// # Errors
    /// [`DecodeError::InvalidMetadata`], naming row `row_idx`.
    #[inline]
    pub(crate) fn read_levels(&self, bytes: &[u8], row_idx: usize) -> Result<Levels, DecodeError> {
        let (zero, scale) = bytes.split_at(self.metadata.bytes());
        let levels = Levels { zero: self.metadata.read(zero), scale: self.metadata.read(scale) };
        let max_code = self.width.max_code().unwrap_or(0);
        let refused = DecodeError::InvalidMetadata { row: row_idx };
        if levels.are_valid(max_code) { Ok(levels) } else { Err(refused) }
    }

    /// Decodes one row of a message of the right length, handing each value to `put`.
    #[inline]
    fn decode_row(
        &self,
        message: &[u8],
        n_rows: usize,
        row_idx: usize,
        row: &mut [f32],
        put: impl Fn(&mut f32, f32),
    ) -> Result<(), DecodeError> {
        let place = self.place(n_rows, row.len(), row_idx);
        let payload = &message[place.payload()];
        if !self.width.is_quantized() {
            return float_rows::decode(payload, row_idx, self.width, row, put);
        }
        let levels = self.read_levels(&message[place.metadata()], row_idx)?;
        match self.width {
            Width::One => dequantize::<1>(payload, levels, row, put),
            Width::Two => dequantize::<2>(payload, levels, row, put),
            Width::Four => dequantize::<4>(payload, levels, row, put),
            _ => dequantize::<8>(payload, levels, row, put),
        }
        Ok(())
    }
}

/// The shape of a matrix whose rows are added to.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// `None` without columns.
    n_rows: Option<usize>,
    n_cols: usize,
}

impl Target {
    /// Columns of the matrix.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn n_cols(self) -> usize {
        self.n_cols
    }

    /// Row `id` of the matrix `values`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn row(self, values: &mut [f32], id: u32) -> &mut [f32] {
        let id = id as usize;
        let Some(n_rows) = self.n_rows else { return values };
        assert!(id < n_rows, "row {id} of a matrix of {n_rows} rows");
        &mut values[id * self.n_cols..(id + 1) * self.n_cols]
    }
}

/// Reads the codes of one row at `BITS` bits each; padding bits are not looked at.
#[inline]
fn dequantize<const BITS: usize>(
    payload: &[u8],
    levels: Levels,
    row: &mut [f32],
    put: impl Fn(&mut f32, f32),
) {
    let max_code = (1 << BITS) - 1;
    // Up to 16 levels are looked up rather than computed for every value.
    let mut table = [0.0; 16];
    if BITS <= 4 {
        for (code, level) in (0..=max_code).zip(&mut table) {
            *level = levels.value(code);
        }
    }
    // Eight values take `BITS` bytes.
    for (slots, bytes) in row.chunks_mut(8).zip(payload.chunks(BITS)) {
        let packed = bytes.iter().rev().fold(0, |packed, &byte| packed << 8 | u64::from(byte));
        for (idx, slot) in slots.iter_mut().enumerate() {
            let code = (packed >> (idx * BITS)) as u32 & max_code;
            put(slot, if BITS <= 4 { table[code as usize] } else { levels.value(code) });
        }
    }
}
