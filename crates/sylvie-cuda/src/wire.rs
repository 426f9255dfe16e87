//! Rows as bytes, coded on the device.

use sylvie_device::DeviceError;
use sylvie_kernels::SCATTER_ADD_IN_ORDER;
use sylvie_lowbit::{DecodeError, DeviceList, DeviceRows, EncodeError, RowCodec};
use sylvie_random::Family;
use sylvie_tensor::Wire;

use crate::messages::Messages;
use crate::row_wise::scatter_with;
use crate::{CudaBackend, CudaIndex, CudaMatrix, done};

impl CudaIndex {
    fn as_list(&self) -> DeviceList<'_> {
        DeviceList { numbers: &self.memory, len: self.len() }
    }
}

impl CudaMatrix {
    fn as_rows(&self) -> DeviceRows<'_> {
        DeviceRows { values: &self.memory, n_rows: self.n_rows(), n_cols: self.n_cols() }
    }
}

impl<M: Messages> CudaBackend<M> {
    fn encode(
        &self,
        codec: RowCodec,
        x: &CudaMatrix,
        rows: Option<&CudaIndex>,
        keys: &CudaIndex,
        draws: Family,
        out: M::Bytes,
    ) -> Result<Result<M::Bytes, EncodeError>, DeviceError> {
        let n_bytes = codec.message_bytes(keys.len(), x.n_cols());
        let (mut written, old) = M::room(self.device(), n_bytes, out)?;
        let rows = rows.map(CudaIndex::as_list);
        let encoded =
            codec.encode_on_device(x.as_rows(), rows, keys.as_list(), draws, &mut written)?;
        match encoded {
            Ok(()) => M::send_off(written, old).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl<M: Messages> Wire for CudaBackend<M> {
    type Bytes = M::Bytes;

    fn bytes_from_host(&self, bytes: Vec<u8>) -> M::Bytes {
        done(M::from_host(self.device(), bytes))
    }

    fn bytes_to_host(&self, bytes: M::Bytes) -> Vec<u8> {
        done(M::to_host(bytes))
    }

    fn encode_rows(
        &self,
        codec: RowCodec,
        x: &CudaMatrix,
        rows: &CudaIndex,
        keys: &CudaIndex,
        draws: Family,
        out: M::Bytes,
    ) -> Result<M::Bytes, EncodeError> {
        assert_eq!(rows.len(), keys.len(), "rows to encode and their keys");
        rows.assert_below(x.n_rows(), "rows to encode");
        done(self.encode(codec, x, Some(rows), keys, draws, out))
    }

    fn encode_all_rows(
        &self,
        codec: RowCodec,
        x: &CudaMatrix,
        keys: &CudaIndex,
        draws: Family,
        out: M::Bytes,
    ) -> Result<M::Bytes, EncodeError> {
        assert_eq!(x.n_rows(), keys.len(), "rows to encode and their keys");
        done(self.encode(codec, x, None, keys, draws, out))
    }

    fn select_rows(
        &self,
        codec: RowCodec,
        message: &M::Bytes,
        (n_rows, n_cols): (usize, usize),
        positions: &CudaIndex,
        out: M::Bytes,
    ) -> Result<M::Bytes, DecodeError> {
        positions.assert_below(n_rows, "rows to select");
        done(M::select(self.device(), codec, message, (n_rows, n_cols), positions, out))
    }

    fn decode_rows(
        &self,
        codec: RowCodec,
        message: &M::Bytes,
        out: &mut CudaMatrix,
    ) -> Result<(), DecodeError> {
        let shape = out.shape();
        done(M::on_device(self.device(), message, |message| {
            codec.decode_on_device(message, shape, &mut out.memory)
        }))
    }

    fn packed_rows(
        &self,
        codec: RowCodec,
        message: &M::Bytes,
        (n_rows, n_cols): (usize, usize),
    ) -> Result<CudaMatrix, DecodeError> {
        let mut rows = CudaMatrix::new(self.device(), n_rows, n_cols);
        self.decode_rows(codec, message, &mut rows)?;
        Ok(rows)
    }

    fn decode_add_rows(
        &self,
        codec: RowCodec,
        message: &M::Bytes,
        rows: &CudaIndex,
        out: &mut CudaMatrix,
    ) -> Result<(), DecodeError> {
        rows.assert_below(out.n_rows(), "rows to add to");
        let n_cols = out.n_cols();
        if rows.is_distinct() {
            return done(M::on_device(self.device(), message, |message| {
                codec.decode_add_on_device(message, n_cols, rows.as_list(), &mut out.memory)
            }));
        }
        let mut decoded = CudaMatrix::new(self.device(), rows.len(), n_cols);
        self.decode_rows(codec, message, &mut decoded)?;
        scatter_with(&SCATTER_ADD_IN_ORDER, (1, n_cols), &decoded, rows, out);
        Ok(())
    }
}
