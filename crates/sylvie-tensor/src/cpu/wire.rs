//! Rows as host bytes.

use sylvie_lowbit::{DecodeError, EncodeError, RowCodec};
use sylvie_random::Family;

use super::{CpuBackend, CpuMatrix};
use crate::wire::Wire;

impl Wire for CpuBackend {
    type Bytes = Vec<u8>;

    fn bytes_from_host(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn bytes_to_host(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn encode_rows(
        &self,
        codec: RowCodec,
        x: &CpuMatrix,
        rows: &Vec<u32>,
        keys: &Vec<u32>,
        draws: Family,
        mut out: Vec<u8>,
    ) -> Result<Vec<u8>, EncodeError> {
        out.resize(codec.message_bytes(rows.len(), x.n_cols()), 0);
        codec.encode_rows(x.values(), x.n_cols(), rows, keys, draws, &mut out)?;
        Ok(out)
    }

    fn encode_all_rows(
        &self,
        codec: RowCodec,
        x: &CpuMatrix,
        keys: &Vec<u32>,
        draws: Family,
        mut out: Vec<u8>,
    ) -> Result<Vec<u8>, EncodeError> {
        out.resize(codec.message_bytes(x.n_rows(), x.n_cols()), 0);
        codec.encode_all(x.values(), x.n_cols(), keys, draws, &mut out)?;
        Ok(out)
    }

    fn select_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        (n_rows, n_cols): (usize, usize),
        positions: &Vec<u32>,
        mut out: Vec<u8>,
    ) -> Result<Vec<u8>, DecodeError> {
        out.resize(codec.message_bytes(positions.len(), n_cols), 0);
        codec.select_rows(message, n_rows, n_cols, positions, &mut out)?;
        Ok(out)
    }

    fn decode_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        out: &mut CpuMatrix,
    ) -> Result<(), DecodeError> {
        let n_cols = out.n_cols();
        codec.decode_rows(message, n_cols, out.values_mut())
    }

    fn decode_add_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        rows: &Vec<u32>,
        out: &mut CpuMatrix,
    ) -> Result<(), DecodeError> {
        let n_cols = out.n_cols();
        codec.decode_add_rows(message, n_cols, rows, out.values_mut())
    }
}
