//! The codec and the shape of its messages.

use crate::{DecodeError, MetadataType, Width};

/// How rows become bytes: the width of a value, and the type of the metadata at quantised widths.
///
/// # Layout
/// A message holds the metadata of all rows (zero point, then scale, row by row), then the payload of
/// all rows, each padded to a whole byte with zero bits. Value `j` of a `b`-bit row lies in bits
/// `j * b % 8 ..` of byte `j * b / 8`, least significant bit first. Floating-point widths have no
/// metadata. Everything is little-endian, nothing is aligned, and there is no header: both sides know
/// the number of rows and columns, and the length is checked.
///
/// # Example
/// ```
/// use sylvie_lowbit::{MetadataType, RowCodec, Width};
///
/// let codec = RowCodec::new(Width::One);
/// // 256 columns of 10 rows: 32 bytes of bits a row, and 4 of metadata.
/// assert_eq!(codec.message_bytes(10, 256), 10 * (32 + 4));
/// let exact_ends = RowCodec { metadata: MetadataType::F32, ..codec };
/// assert_eq!(exact_ends.metadata_bytes(10), 10 * 8);
/// assert_eq!(RowCodec::new(Width::F32).message_bytes(10, 256), 10 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowCodec {
    /// Width of a value.
    pub width: Width,
    /// Type of zero points and scales; without effect at floating-point widths.
    pub metadata: MetadataType,
}

impl RowCodec {
    /// A codec with `bf16` metadata.
    #[must_use]
    pub fn new(width: Width) -> Self {
        Self { width, metadata: MetadataType::default() }
    }

    /// Bytes of one row's values.
    ///
    /// # Panics
    /// If the number does not fit into `usize`.
    #[inline]
    #[must_use]
    pub fn row_payload_bytes(&self, n_cols: usize) -> usize {
        match self.width {
            Width::One => n_cols.div_ceil(8),
            Width::Two => n_cols.div_ceil(4),
            Width::Four => n_cols.div_ceil(2),
            Width::Eight => n_cols,
            Width::F16 | Width::Bf16 | Width::F32 => product(n_cols, self.width.bits() / 8),
        }
    }

    /// Bytes of one row's zero point and scale: 0 at floating-point widths.
    #[must_use]
    pub const fn row_metadata_bytes(&self) -> usize {
        if self.width.is_quantized() { 2 * self.metadata.bytes() } else { 0 }
    }

    /// Bytes of the values of `n_rows` rows.
    ///
    /// # Panics
    /// If the number does not fit into `usize`.
    #[must_use]
    pub fn payload_bytes(&self, n_rows: usize, n_cols: usize) -> usize {
        product(n_rows, self.row_payload_bytes(n_cols))
    }

    /// Bytes of the zero points and scales of `n_rows` rows.
    ///
    /// # Panics
    /// If the number does not fit into `usize`.
    #[must_use]
    pub fn metadata_bytes(&self, n_rows: usize) -> usize {
        product(n_rows, self.row_metadata_bytes())
    }

    /// Bytes of a message of `n_rows` rows.
    ///
    /// # Panics
    /// If the number does not fit into `usize`.
    #[must_use]
    pub fn message_bytes(&self, n_rows: usize, n_cols: usize) -> usize {
        product(n_rows, self.row_metadata_bytes().saturating_add(self.row_payload_bytes(n_cols)))
    }

    /// Copies the encoded rows `rows` of a message of `n_rows` rows into a new message, so that a row
    /// is encoded once and sent to many readers.
    ///
    /// The result is what encoding those rows alone, with the same keys, would have given. The content
    /// of the message is not looked at.
    ///
    /// # Shapes
    /// `out`: `message_bytes(rows.len(), n_cols)` bytes.
    /// # Cost
    /// One copy of the selected rows.
    /// # Errors
    /// [`DecodeError::WrongLength`] if `message` is not `message_bytes(n_rows, n_cols)` long.
    /// # Panics
    /// If `out` has another length, or a row is not below `n_rows`.
    ///
    /// # Example
    /// ```
    /// use sylvie_lowbit::{RowCodec, Width};
    /// use sylvie_random::{Coordinates, Stream};
    ///
    /// let (codec, n_cols) = (RowCodec::new(Width::One), 2);
    /// let draws = Coordinates::new(7, Stream::Rounding).family();
    /// // Three boundary rows, encoded once.
    /// let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    /// let mut all = vec![0; codec.message_bytes(3, n_cols)];
    /// codec.encode_all(&x, n_cols, &[10, 11, 12], draws, &mut all)?;
    /// // One reader needs the first and the last.
    /// let mut message = vec![0; codec.message_bytes(2, n_cols)];
    /// codec.select_rows(&all, 3, n_cols, &[0, 2], &mut message)?;
    /// let mut halo = [0.0; 4];
    /// codec.decode_rows(&message, n_cols, &mut halo)?;
    /// assert_eq!(halo, [0.0, 1.0, 4.0, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select_rows(
        &self,
        message: &[u8],
        n_rows: usize,
        n_cols: usize,
        rows: &[u32],
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        self.assert_message_len(out.len(), rows.len(), n_cols);
        self.check_len(message, n_rows, n_cols)?;
        for (to, &from) in rows.iter().enumerate() {
            let from = from as usize;
            assert!(from < n_rows, "row {from} of a message of {n_rows} rows");
            let source = self.place(n_rows, n_cols, from);
            let target = self.place(rows.len(), n_cols, to);
            out[target.metadata()].copy_from_slice(&message[source.metadata()]);
            out[target.payload()].copy_from_slice(&message[source.payload()]);
        }
        Ok(())
    }

    /// Where row `row_idx` lies in a message of `n_rows` rows.
    #[inline]
    pub(crate) fn place(&self, n_rows: usize, n_cols: usize, row_idx: usize) -> RowPlace {
        let metadata_len = self.row_metadata_bytes();
        let payload_len = self.row_payload_bytes(n_cols);
        RowPlace {
            metadata_start: row_idx * metadata_len,
            metadata_len,
            payload_start: n_rows * metadata_len + row_idx * payload_len,
            payload_len,
        }
    }

    /// Refuses a message whose length is not that of `n_rows` rows.
    pub(crate) fn check_len(
        &self,
        message: &[u8],
        n_rows: usize,
        n_cols: usize,
    ) -> Result<(), DecodeError> {
        let expected = self.message_bytes(n_rows, n_cols);
        let found = message.len();
        if found == expected { Ok(()) } else { Err(DecodeError::WrongLength { expected, found }) }
    }

    /// Holds a caller's output to the length of a message of `n_rows` rows.
    pub(crate) fn assert_message_len(&self, len: usize, n_rows: usize, n_cols: usize) {
        let expected = self.message_bytes(n_rows, n_cols);
        assert!(
            len == expected,
            "output of {len} bytes for a message of {n_rows} x {n_cols} values, {expected} bytes"
        );
    }
}

/// Where one row lies in a message.
#[derive(Clone, Copy)]
pub(crate) struct RowPlace {
    metadata_start: usize,
    metadata_len: usize,
    payload_start: usize,
    payload_len: usize,
}

impl RowPlace {
    #[inline]
    pub(crate) fn metadata(self) -> core::ops::Range<usize> {
        self.metadata_start..self.metadata_start + self.metadata_len
    }

    #[inline]
    pub(crate) fn payload(self) -> core::ops::Range<usize> {
        self.payload_start..self.payload_start + self.payload_len
    }
}

fn product(count: usize, bytes: usize) -> usize {
    count
        .checked_mul(bytes)
        .unwrap_or_else(|| panic!("{count} times {bytes} bytes do not fit into memory"))
}

/// The number of rows of a row-major matrix; `None` without columns, when any number fits.
///
/// # Panics
/// If `len` is not a multiple of `n_cols`.
pub(crate) fn n_matrix_rows(len: usize, n_cols: usize) -> Option<usize> {
    if n_cols == 0 {
        assert!(len == 0, "matrix of {len} values with 0 columns");
        return None;
    }
    assert!(len.is_multiple_of(n_cols), "matrix of {len} values with {n_cols} columns");
    Some(len / n_cols)
}
