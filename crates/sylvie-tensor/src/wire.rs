//! Rows as bytes.

use sylvie_lowbit::{DecodeError, EncodeError, RowCodec, Width};
use sylvie_random::Family;

use crate::backend::Backend;

/// A backend whose rows can travel.
///
/// Bytes follow docs/wire-format.md: every backend gives the same bytes for the same rows, keys and
/// draws, on any number of threads. Buffers given as `out` are resized as needed and handed back, so that they can be reused.
///
/// # Example
/// ```
/// use sylvie_lowbit::{RowCodec, Width};
/// use sylvie_random::{Coordinates, Stream};
/// use sylvie_tensor::{Backend, CpuBackend, Wire};
///
/// let backend = CpuBackend::new(1);
/// let (codec, draws) = (RowCodec::new(Width::One), Coordinates::new(1, Stream::Rounding).family());
/// let x = backend.upload(3, 2, &[0.0, 1.0, 5.0, 7.0, -1.0, 1.0]);
/// // Rows 0 and 2, which go by the names 40 and 42. At one bit a row's two ends are exact.
/// let (rows, keys) = (backend.upload_index(&[0, 2]), backend.upload_index(&[40, 42]));
/// let message = backend.encode_rows(codec, &x, &rows, &keys, draws, Vec::new())?;
/// assert_eq!(message.len(), codec.message_bytes(2, 2));
/// let mut halo = backend.matrix_to_assign(2, 2);
/// backend.decode_rows(codec, &message, &mut halo)?;
/// assert_eq!(backend.download(&halo), [0.0, 1.0, -1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Wire: Backend {
    /// A message, in whatever memory the transport takes.
    type Bytes: Send + 'static;

    /// A message of host bytes.
    fn bytes_from_host(&self, bytes: Vec<u8>) -> Self::Bytes;
    /// Host bytes of a message.
    fn bytes_to_host(&self, bytes: Self::Bytes) -> Vec<u8>;

    /// Encodes the rows `rows` of `x`; row `i` draws at key `keys[i]`.
    ///
    /// # Errors
    /// A row that the codec cannot represent, with its place in `rows`.
    fn encode_rows(
        &self,
        codec: RowCodec,
        x: &Self::Matrix,
        rows: &Self::Index,
        keys: &Self::Index,
        draws: Family,
        out: Self::Bytes,
    ) -> Result<Self::Bytes, EncodeError>;

    /// Encodes all rows of `x` in order; row `i` draws at key `keys[i]`.
    ///
    /// # Errors
    /// A row that the codec cannot represent.
    fn encode_all_rows(
        &self,
        codec: RowCodec,
        x: &Self::Matrix,
        keys: &Self::Index,
        draws: Family,
        out: Self::Bytes,
    ) -> Result<Self::Bytes, EncodeError>;

    /// Copies the encoded rows `positions` of a message of `n_rows` rows into a message of their own.
    ///
    /// # Errors
    /// A message of the wrong length.
    fn select_rows(
        &self,
        codec: RowCodec,
        message: &Self::Bytes,
        shape: (usize, usize),
        positions: &Self::Index,
        out: Self::Bytes,
    ) -> Result<Self::Bytes, DecodeError>;

    /// Decodes a message into all rows of `out`, which is assigned: it may come from
    /// [`Backend::matrix_to_assign`].
    ///
    /// # Errors
    /// A message that is not one of that many rows; then `out` may be partly assigned.
    fn decode_rows(
        &self,
        codec: RowCodec,
        message: &Self::Bytes,
        out: &mut Self::Matrix,
    ) -> Result<(), DecodeError>;

    /// The rows of a message, checked and still packed: [`Backend::unpacked`] gives what
    /// [`Wire::decode_rows`] assigns. The message is not needed any more.
    ///
    /// # Errors
    /// As [`Wire::decode_rows`].
    /// # Panics
    /// If the codec is none of 1, 2, 4 or 8 bits.
    fn packed_rows(
        &self,
        codec: RowCodec,
        message: &Self::Bytes,
        shape: (usize, usize),
    ) -> Result<Self::Packed, DecodeError>;

    /// Whether rows that no draw rounds are better encoded once for each reader than once and selected for each: the bytes
    /// are the same.
    fn encodes_for_each_reader(&self) -> bool {
        false
    }

    /// Whether sums of packed rows of so many columns are expected to take no longer than decoding them and summing floats.
    fn packs_well(&self, _width: Width, _n_cols: usize) -> bool {
        false
    }

    /// Decodes a message and adds row `i` to `out[rows[i]]`, for each `i` in turn.
    ///
    /// # Errors
    /// A message that is not one of that many rows; if its length is right, some rows may have been
    /// added.
    fn decode_add_rows(
        &self,
        codec: RowCodec,
        message: &Self::Bytes,
        rows: &Self::Index,
        out: &mut Self::Matrix,
    ) -> Result<(), DecodeError>;
}
