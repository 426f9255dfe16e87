//! The CPU backend with the specification's codec instead of the fast one.

use sylvie_graph::{Block, SparseMatrix};
use sylvie_lowbit::{DecodeError, EncodeError, Plain, RowCodec};
use sylvie_random::Family;
use sylvie_tensor::{
    AdamStep, Attention, AttentionGrads, AttentionRows, Backend, CpuAdjacency, CpuBackend,
    CpuMatrix, CpuSparse, Mode, Wire,
};

/// What the codec does other than the specification says, to see that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It draws with another seed.
    OtherSeed,
    /// The last value of each encoded message is rounded to a neighbour of what it should be: its lowest
    /// bit is the other one.
    OtherCode,
    /// The last value of each decoded row is the float next to what it should be.
    OtherFloat,
}

/// Computes as [`CpuBackend`] does on one thread; its rows travel by [`Plain`], loops over single values.
#[derive(Clone, Debug)]
pub(crate) struct PlainWire {
    cpu: CpuBackend,
    fault: Fault,
}

impl PlainWire {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { cpu: CpuBackend::new(1), fault }
    }

    fn draws(&self, draws: Family) -> Family {
        let [low, high] = draws.key;
        if self.fault == Fault::OtherSeed {
            Family { key: [low ^ 1, high], ..draws }
        } else {
            draws
        }
    }

    fn encoded(&self, codec: RowCodec, n_cols: usize, mut message: Vec<u8>) -> Vec<u8> {
        if self.fault == Fault::OtherCode && !message.is_empty() {
            let bit = (n_cols - 1) * codec.width.bits();
            let last_row = message.len() - codec.row_payload_bytes(n_cols);
            message[last_row + bit / 8] ^= 1 << (bit % 8);
        }
        message
    }

    fn decode(
        &self,
        codec: RowCodec,
        message: &[u8],
        (n_rows, n_cols): (usize, usize),
    ) -> Result<Vec<f32>, DecodeError> {
        let mut values = vec![0.0; n_rows * n_cols];
        Plain(codec).decode_rows(message, n_cols, &mut values)?;
        if self.fault == Fault::OtherFloat {
            let rows = values.chunks_mut(n_cols);
            rows.for_each(|row| row[n_cols - 1] = row[n_cols - 1].next_up());
        }
        Ok(values)
    }
}

/// A message of `n_rows` rows, all of it zero.
fn blank(codec: RowCodec, (n_rows, n_cols): (usize, usize), mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.resize(codec.message_bytes(n_rows, n_cols), 0);
    buffer
}

impl Wire for PlainWire {
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
        out: Vec<u8>,
    ) -> Result<Vec<u8>, EncodeError> {
        let (n_cols, draws) = (x.n_cols(), self.draws(draws));
        let mut out = blank(codec, (rows.len(), n_cols), out);
        Plain(codec).encode_rows(x.values(), n_cols, rows, keys, draws, &mut out)?;
        Ok(self.encoded(codec, n_cols, out))
    }

    fn encode_all_rows(
        &self,
        codec: RowCodec,
        x: &CpuMatrix,
        keys: &Vec<u32>,
        draws: Family,
        out: Vec<u8>,
    ) -> Result<Vec<u8>, EncodeError> {
        let (n_cols, draws) = (x.n_cols(), self.draws(draws));
        let mut out = blank(codec, (x.n_rows(), n_cols), out);
        Plain(codec).encode_all(x.values(), n_cols, keys, draws, &mut out)?;
        Ok(self.encoded(codec, n_cols, out))
    }

    fn select_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        (n_rows, n_cols): (usize, usize),
        positions: &Vec<u32>,
        mut out: Vec<u8>,
    ) -> Result<Vec<u8>, DecodeError> {
        let (expected, found) = (codec.message_bytes(n_rows, n_cols), message.len());
        if found != expected {
            return Err(DecodeError::WrongLength { expected, found });
        }
        let (metadata, payload) = message.split_at(codec.metadata_bytes(n_rows));
        out.clear();
        for (bytes, row_bytes) in
            [(metadata, codec.row_metadata_bytes()), (payload, codec.row_payload_bytes(n_cols))]
        {
            for &row in positions {
                let start = row as usize * row_bytes;
                out.extend_from_slice(&bytes[start..start + row_bytes]);
            }
        }
        Ok(out)
    }

    fn decode_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        out: &mut CpuMatrix,
    ) -> Result<(), DecodeError> {
        let values = self.decode(codec, message, self.shape(out))?;
        out.values_mut().copy_from_slice(&values);
        Ok(())
    }

    fn packed_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        shape: (usize, usize),
    ) -> Result<CpuMatrix, DecodeError> {
        let values = self.decode(codec, message, shape)?;
        Ok(self.upload(shape.0, shape.1, &values))
    }

    fn decode_add_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        rows: &Vec<u32>,
        out: &mut CpuMatrix,
    ) -> Result<(), DecodeError> {
        let n_cols = out.n_cols();
        if self.fault == Fault::None {
            return Plain(codec).decode_add_rows(message, n_cols, rows, out.values_mut());
        }
        let values = self.decode(codec, message, (rows.len(), n_cols))?;
        for (&row, values) in rows.iter().zip(values.chunks(n_cols)) {
            let sums = &mut out.values_mut()[row as usize * n_cols..][..n_cols];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        Ok(())
    }
}

/// Methods of a backend that the CPU backend does.
macro_rules! by_cpu {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.cpu.$name($($argument),*)
        })*
    };
}

type M = CpuMatrix;
type Rows<'a> = AttentionRows<'a, M>;
type Grads<'a> = AttentionGrads<'a, M>;

impl Backend for PlainWire {
    type Matrix = CpuMatrix;
    type Sparse = CpuSparse;
    type Adjacency = CpuAdjacency;
    type Index = Vec<u32>;
    type Packed = CpuMatrix;

    by_cpu! {
        fn zeros(n_rows: usize, n_cols: usize) -> M;
        fn matrix_to_assign(n_rows: usize, n_cols: usize) -> M;
        fn upload(n_rows: usize, n_cols: usize, values: &[f32]) -> M;
        fn download(x: &M) -> Vec<f32>;
        fn copy(x: &M) -> M;
        fn shape(x: &M) -> (usize, usize);
        fn upload_index(values: &[u32]) -> Vec<u32>;
        fn upload_sparse(x: &SparseMatrix) -> CpuSparse;
        fn upload_block(block: &Block) -> CpuAdjacency;

        fn matmul(a: &M, b: &M, mode: Mode, out: &mut M);
        fn matmul_tn(a: &M, b: &M, mode: Mode, out: &mut M);
        fn matmul_nt(a: &M, b: &M, mode: Mode, out: &mut M);
        fn sparse_matmul(a: &CpuSparse, b: &M, mode: Mode, out: &mut M);
        fn sparse_matmul_tn(a: &CpuSparse, b: &M, mode: Mode, out: &mut M);

        fn scale_rows(factors: &M, x: &mut M);
        fn add_scaled_rows(x: &M, factors: &M, out: &mut M);
        fn add_bias(bias: &M, x: &mut M);
        fn column_sums(x: &M, mode: Mode, out: &mut M);
        fn scatter_add(x: &M, rows: &Vec<u32>, out: &mut M);
        fn smooth(decay: f32, x: &M, average: &mut M);

        fn aggregate(block: &CpuAdjacency, column_scale: Option<&M>, x: &M, out: &mut M);
        fn aggregate_transposed(
            block: &CpuAdjacency,
            column_scale: Option<&M>,
            dy: &M,
            out: &mut M,
        );

        fn attention_scores(x: &M, weights: &M) -> M;
        fn attention_scores_backward(
            x: &M,
            weights: &M,
            dscores: &M,
            dx: &mut M,
            dweights: &mut M,
        );
        fn attention_begin(values: &M, source: &M, target: &M) -> Attention<M>;
        fn attention_add_block(
            block: &CpuAdjacency,
            values: &M,
            source: &M,
            target: &M,
            state: &mut Attention<M>,
        );
        fn attention_finish(state: &mut Attention<M>);
        fn attention_self_backward(
            values: &M,
            source: &M,
            target: &M,
            rows: Rows<'_>,
            grads: Grads<'_>,
        );
        fn attention_block_backward(
            block: &CpuAdjacency,
            values: &M,
            source: &M,
            target: &M,
            rows: Rows<'_>,
            grads: Grads<'_>,
        );
        fn head_dots(x: &M, y: &M, n_heads: usize) -> M;
        fn head_mean(x: &M, n_heads: usize) -> M;
        fn head_mean_backward(dy: &M, n_heads: usize) -> M;

        fn layer_norm(gain: &M, offset: &M, x: &mut M) -> (M, M);
        fn layer_norm_backward(
            gain: &M,
            saved: (&M, &M),
            dy: &mut M,
            dgain: &mut M,
            doffset: &mut M,
        );
        fn affine_relu(gain: &M, offset: &M, x: &M) -> M;
        fn relu(x: &mut M);
        fn relu_backward(y: &M, dy: &mut M);
        fn dropout(rate: f32, draws: Family, keys: &Vec<u32>, x: &mut M);
        fn sparse_dropout(rate: f32, draws: Family, keys: &Vec<u32>, x: &CpuSparse) -> CpuSparse;

        fn softmax_cross_entropy(
            logits: &M,
            rows: &Vec<u32>,
            classes: &Vec<u32>,
            dlogits: &mut M,
        ) -> f64;
        fn binary_cross_entropy(
            logits: &M,
            rows: &Vec<u32>,
            targets: &M,
            dlogits: &mut M,
        ) -> f64;
        fn adam(step: &AdamStep, gradient: &M, moments: (&mut M, &mut M), weights: &mut M);
    }

    fn aggregate_packed(&self, block: &CpuAdjacency, column_scale: Option<&M>, x: &M, out: &mut M) {
        self.aggregate(block, column_scale, x, out);
    }
    fn packed_dropped(&self, rate: f32, draws: Family, keys: &Vec<u32>, x: &M) -> M {
        self.dropped(rate, draws, keys, x)
    }
    fn packed_shape(&self, x: &M) -> (usize, usize) {
        self.shape(x)
    }
    fn unpacked(&self, x: &M) -> M {
        self.copy(x)
    }
}
