//! The plain version by itself.

use sylvie_random::Family;

use crate::engine::Engine;
use crate::{DecodeError, EncodeError, RowCodec};

/// The codec without vector instructions: the specification that [`RowCodec`], whatever instructions
/// it finds, is held to. For tests and for measuring; the bytes are the same.
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
