//! The plain version by itself.

use sylvie_random::Family;

use crate::engine::Engine;
use crate::{DecodeError, EncodeError, RowCodec};

/// The codec without vector instructions: the specification that [`RowCodec`], whatever instructions
/// it finds, is held to. For tests and for measuring; the bytes are the same.
///
/// # Example
/// ```
/// use sylvie_lowbit::{EncodeError, Plain, RowCodec, Width};
/// use sylvie_random::{Coordinates, Stream};
///
/// let codec = RowCodec::new(Width::One);
/// let draws = Coordinates::new(7, Stream::Rounding).family();
/// let x: Vec<f32> = (0..100).map(|value| value as f32).collect();
/// let mut messages = [0, 1].map(|_| vec![0; codec.message_bytes(1, 100)]);
/// codec.encode_all(&x, 100, &[1000], draws, &mut messages[0])?;
/// Plain(codec).encode_all(&x, 100, &[1000], draws, &mut messages[1])?;
/// assert_eq!(messages[0], messages[1]);
/// # Ok::<(), EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plain(pub RowCodec);

impl Plain {
    /// As [`RowCodec::encode_rows`].
    ///
    /// # Errors
    /// As there.
    /// # Panics
    /// As there.
    pub fn encode_rows(
        &self,
        x: &[f32],
        n_cols: usize,
        row_ids: &[u32],
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        self.0.encode_rows_by(Engine::Plain, x, n_cols, row_ids, row_keys, draws, out)
    }

    /// As [`RowCodec::encode_all`].
    ///
    /// # Errors
    /// As there.
    /// # Panics
    /// As there.
    pub fn encode_all(
        &self,
        x: &[f32],
        n_cols: usize,
        row_keys: &[u32],
        draws: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        self.0.encode_all_by(Engine::Plain, x, n_cols, row_keys, draws, out)
    }

    /// As [`RowCodec::decode_rows`].
    ///
    /// # Errors
    /// As there.
    /// # Panics
    /// As there.
    pub fn decode_rows(
        &self,
        message: &[u8],
        n_cols: usize,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        self.0.decode_rows_by(Engine::Plain, message, n_cols, out)
    }

    /// As [`RowCodec::decode_add_rows`].
    ///
    /// # Errors
    /// As there.
    /// # Panics
    /// As there.
    pub fn decode_add_rows(
        &self,
        message: &[u8],
        n_cols: usize,
        row_ids: &[u32],
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        self.0.decode_add_rows_by(Engine::Plain, message, n_cols, row_ids, out)
    }
}
