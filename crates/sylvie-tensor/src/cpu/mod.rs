//! The CPU backend: the specification of every primitive.

mod aggregate;
mod attention;
mod bf16;
mod dense;
mod gather;
mod gathered;
mod kernels;
mod layer_norm;
mod loss;
mod matrix;
mod packed;
mod pool;
mod row_wise;
mod scatter;
mod sparse;
mod threads;
mod wire;

use std::borrow::Cow;
use std::io;

use sylvie_graph::{Block, SparseMatrix};
use sylvie_random::Family;

pub use self::aggregate::CpuAdjacency;
pub use self::matrix::CpuMatrix;
pub use self::packed::CpuPacked;
pub use self::pool::BufferUse;
use self::pool::Pool;
pub use self::sparse::CpuSparse;
use self::threads::Threads;
use crate::backend::Backend;
use crate::gathering::Gather;
use crate::operands::{AdamStep, Attention, AttentionGrads, AttentionRows, Mode, SumFactors};

/// Computes on the threads of one rank, in buffers that rotate.
///
/// Matrices take their buffers from a pool that clones of the backend share, and give them back when they
/// are dropped. Of each size class (a power of two) the pool holds no more buffers than were in use at
/// once, and frees what lay idle while 4096 others were taken.
///
/// # Example
/// ```
/// use sylvie_tensor::{Backend, BufferUse, CpuBackend, CpuMatrix, Mode};
///
/// let values: Vec<f32> = (0..6000).map(|value| (value as f32).sin()).collect();
/// let sums = |backend: &CpuBackend| {
///     let x: CpuMatrix = backend.upload(3000, 2, &values);
///     let mut sums = backend.zeros(1, 2);
///     backend.column_sums(&x, Mode::Assign, &mut sums);
///     sums.row(0).to_vec()
/// };
/// let (one, three) = (CpuBackend::new(1), CpuBackend::new(3));
/// assert_eq!(sums(&one), sums(&three)); // bit for bit
///
/// // The matrix of the second time has the buffer of the first.
/// sums(&one);
/// let BufferUse { n_allocated, in_use_bytes, .. } = one.buffer_use();
/// assert_eq!((n_allocated, in_use_bytes), (1, 0));
/// ```
#[derive(Clone, Debug)]
pub struct CpuBackend {
    threads: Threads,
    pool: Pool,
    gather: Gather,
}

impl CpuBackend {
    /// A backend with `n_threads` threads; with one, all work stays on the caller's.
    ///
    /// # Panics
    /// If the operating system refuses the threads.
    #[must_use]
    pub fn new(n_threads: usize) -> Self {
        match Self::try_new(n_threads) {
            Ok(backend) => backend,
            Err(error) => panic!("{n_threads} threads cannot be started: {error}"),
        }
    }

    /// As [`CpuBackend::new`], for whoever takes the number of threads from outside.
    ///
    /// # Errors
    /// The operating system refuses the threads.
    pub fn try_new(n_threads: usize) -> io::Result<Self> {
        let (threads, pool) = (Threads::try_new(n_threads)?, Pool::default());
        Ok(Self { threads, pool, gather: Gather::F32 })
    }

    /// Memory in the buffers of this backend's matrices; of all its clones together.
    #[must_use]
    pub fn buffer_use(&self) -> BufferUse {
        self.pool.buffer_use()
    }
}

fn assert_same_shape(x: &CpuMatrix, y: &CpuMatrix) {
    assert_eq!((x.n_rows(), x.n_cols()), (y.n_rows(), y.n_cols()), "shapes of two matrices");
}

impl Backend for CpuBackend {
    type Matrix = CpuMatrix;
    type Sparse = CpuSparse;
    type Adjacency = CpuAdjacency;
    type Index = Vec<u32>;
    type Packed = CpuPacked;

    fn gathering(&self, gather: Gather) -> Option<Self> {
        Some(Self { gather, ..self.clone() })
    }
    fn zeros(&self, n_rows: usize, n_cols: usize) -> CpuMatrix {
        CpuMatrix::zeros(&self.pool, n_rows, n_cols)
    }
    fn matrix_to_assign(&self, n_rows: usize, n_cols: usize) -> CpuMatrix {
        CpuMatrix::to_assign(&self.pool, n_rows, n_cols)
    }
    fn upload(&self, n_rows: usize, n_cols: usize, values: &[f32]) -> CpuMatrix {
        CpuMatrix::from_values(&self.pool, n_rows, n_cols, values)
    }
    fn download(&self, x: &CpuMatrix) -> Vec<f32> {
        x.values().to_vec()
    }
    fn host_values<'a>(&self, x: &'a CpuMatrix) -> Cow<'a, [f32]> {
        Cow::Borrowed(x.values())
    }
    fn copy(&self, x: &CpuMatrix) -> CpuMatrix {
        CpuMatrix::from_values(&self.pool, x.n_rows(), x.n_cols(), x.values())
    }
    fn shape(&self, x: &CpuMatrix) -> (usize, usize) {
        (x.n_rows(), x.n_cols())
    }
    fn upload_index(&self, values: &[u32]) -> Vec<u32> {
        values.to_vec()
    }
    fn upload_sparse(&self, x: &SparseMatrix) -> CpuSparse {
        CpuSparse::new(&self.pool, x)
    }
    fn upload_block(&self, block: &Block) -> CpuAdjacency {
        CpuAdjacency::new(block)
    }

    fn matmul(&self, a: &CpuMatrix, b: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
        dense::matmul(self, a, b, mode, out);
    }
    fn matmul_tn(&self, a: &CpuMatrix, b: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
        dense::matmul_tn(self, a, b, mode, out);
    }
    fn matmul_nt(&self, a: &CpuMatrix, b: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
        dense::matmul_nt(self, a, b, mode, out);
    }
    fn matmul_bias(
        &self,
        a: &CpuMatrix,
        b: &CpuMatrix,
        mode: Mode,
        bias: &CpuMatrix,
        out: &mut CpuMatrix,
    ) {
        dense::matmul_bias(self, a, b, mode, bias, out);
    }
    fn matmul_nt_scaled(&self, a: &CpuMatrix, b: &CpuMatrix, factors: &CpuMatrix) -> CpuMatrix {
        dense::matmul_nt_scaled(self, a, b, factors)
    }
    fn sparse_matmul(&self, a: &CpuSparse, b: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
        sparse::sparse_matmul(&self.threads, a, b, mode, out);
    }
    fn sparse_matmul_tn(&self, a: &CpuSparse, b: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
        sparse::sparse_matmul_tn(&self.threads, a, b, mode, out);
    }

    fn scale_rows(&self, factors: &CpuMatrix, x: &mut CpuMatrix) {
        assert_eq!((factors.n_rows(), factors.n_cols()), (x.n_rows(), 1), "shape of row factors");
        row_wise::each_row(&self.threads, x, |row, values| {
            kernels::scale(factors.values()[row], values);
        });
    }
    fn add_scaled_rows(&self, x: &CpuMatrix, factors: &CpuMatrix, out: &mut CpuMatrix) {
        assert_same_shape(x, out);
        assert_eq!((factors.n_rows(), factors.n_cols()), (x.n_rows(), 1), "shape of row factors");
        row_wise::each_row(&self.threads, out, |row, sums| {
            kernels::add_scaled(factors.values()[row], x.row(row), sums);
        });
    }
    fn add_bias(&self, bias: &CpuMatrix, x: &mut CpuMatrix) {
        assert_eq!((bias.n_rows(), bias.n_cols()), (1, x.n_cols()), "shape of a bias");
        row_wise::each_row(&self.threads, x, |_, values| {
            kernels::add_scaled(1.0, bias.values(), values);
        });
    }
    fn column_sums(&self, x: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
        row_wise::column_sums(&self.threads, x, mode, out);
    }
    fn scatter_add(&self, x: &CpuMatrix, rows: &Vec<u32>, out: &mut CpuMatrix) {
        scatter::scatter_add(&self.threads, x, rows, out);
    }
    fn smooth(&self, decay: f32, x: &CpuMatrix, average: &mut CpuMatrix) {
        assert_same_shape(x, average);
        let rest = 1.0 - decay;
        row_wise::each_row(&self.threads, average, |row, average| {
            for (average, &x) in average.iter_mut().zip(x.row(row)) {
                *average = decay * *average + rest * x;
            }
        });
    }

    fn aggregate(
        &self,
        block: &CpuAdjacency,
        column_scale: Option<&CpuMatrix>,
        x: &CpuMatrix,
        out: &mut CpuMatrix,
    ) {
        aggregate::aggregate(self, block, column_scale, x, out);
    }
    fn aggregate_packed(
        &self,
        block: &CpuAdjacency,
        column_scale: Option<&CpuMatrix>,
        x: &CpuPacked,
        out: &mut CpuMatrix,
    ) {
        aggregate::aggregate_packed(self, block, column_scale, x, out);
    }
    fn packed_dropped(
        &self,
        rate: f32,
        draws: Family,
        keys: &Vec<u32>,
        x: &CpuPacked,
    ) -> CpuPacked {
        x.dropped(self, rate, draws, keys)
    }
    fn packed_shape(&self, x: &CpuPacked) -> (usize, usize) {
        (x.n_rows(), x.n_cols())
    }
    fn unpacked(&self, x: &CpuPacked) -> CpuMatrix {
        x.unpacked(self)
    }
    fn aggregate_transposed(
        &self,
        block: &CpuAdjacency,
        column_scale: Option<&CpuMatrix>,
        dy: &CpuMatrix,
        out: &mut CpuMatrix,
    ) {
        aggregate::aggregate_transposed(self, block, column_scale, dy, out);
    }
    fn aggregated(
        &self,
        block: &CpuAdjacency,
        factors: SumFactors<'_, CpuMatrix>,
        x: &CpuMatrix,
        n_local: usize,
    ) -> CpuMatrix {
        aggregate::aggregated(self, block, factors, x, n_local)
    }
    fn aggregated_transposed(
        &self,
        block: &CpuAdjacency,
        factors: SumFactors<'_, CpuMatrix>,
        dy: &CpuMatrix,
        n_columns: usize,
    ) -> CpuMatrix {
        aggregate::aggregated_transposed(self, block, factors, dy, n_columns)
    }

    fn attention_scores(&self, x: &CpuMatrix, weights: &CpuMatrix) -> CpuMatrix {
        attention::scores(self, x, weights)
    }
    fn attention_scores_backward(
        &self,
        x: &CpuMatrix,
        weights: &CpuMatrix,
        dscores: &CpuMatrix,
        dx: &mut CpuMatrix,
        dweights: &mut CpuMatrix,
    ) {
        attention::scores_backward(&self.threads, (x, weights), dscores, dx, dweights);
    }
    fn attention_begin(
        &self,
        values: &CpuMatrix,
        source: &CpuMatrix,
        target: &CpuMatrix,
    ) -> Attention<CpuMatrix> {
        attention::begin(self, values, (source, target))
    }
    fn attention_add_block(
        &self,
        block: &CpuAdjacency,
        values: &CpuMatrix,
        source: &CpuMatrix,
        target: &CpuMatrix,
        state: &mut Attention<CpuMatrix>,
    ) {
        attention::add_block(self, block, values, (source, target), state);
    }
    fn attention_finish(&self, state: &mut Attention<CpuMatrix>) {
        attention::finish(self, state);
    }
    fn attention_self_backward(
        &self,
        values: &CpuMatrix,
        source: &CpuMatrix,
        target: &CpuMatrix,
        rows: AttentionRows<'_, CpuMatrix>,
        grads: AttentionGrads<'_, CpuMatrix>,
    ) {
        attention::self_backward(self, values, (source, target), rows, grads);
    }
    fn attention_block_backward(
        &self,
        block: &CpuAdjacency,
        values: &CpuMatrix,
        source: &CpuMatrix,
        target: &CpuMatrix,
        rows: AttentionRows<'_, CpuMatrix>,
        grads: AttentionGrads<'_, CpuMatrix>,
    ) {
        attention::block_backward(self, block, values, (source, target), rows, grads);
    }
    fn head_dots(&self, x: &CpuMatrix, y: &CpuMatrix, n_heads: usize) -> CpuMatrix {
        attention::head_dots(self, x, y, n_heads)
    }
    fn head_mean(&self, x: &CpuMatrix, n_heads: usize) -> CpuMatrix {
        attention::head_mean(self, x, n_heads)
    }
    fn head_mean_backward(&self, dy: &CpuMatrix, n_heads: usize) -> CpuMatrix {
        attention::head_mean_backward(self, dy, n_heads)
    }

    fn layer_norm(
        &self,
        gain: &CpuMatrix,
        offset: &CpuMatrix,
        x: &mut CpuMatrix,
    ) -> (CpuMatrix, CpuMatrix) {
        layer_norm::forward(self, gain, offset, x)
    }
    fn layer_norm_backward(
        &self,
        gain: &CpuMatrix,
        saved: (&CpuMatrix, &CpuMatrix),
        dy: &mut CpuMatrix,
        dgain: &mut CpuMatrix,
        doffset: &mut CpuMatrix,
    ) {
        layer_norm::backward(&self.threads, gain, saved, dy, (dgain, doffset));
    }
    fn layer_norm_relu(
        &self,
        gain: &CpuMatrix,
        offset: &CpuMatrix,
        x: &mut CpuMatrix,
    ) -> (CpuMatrix, CpuMatrix) {
        layer_norm::forward_relu(self, gain, offset, x)
    }
    fn affine_relu(&self, gain: &CpuMatrix, offset: &CpuMatrix, x: &CpuMatrix) -> CpuMatrix {
        layer_norm::again(self, (gain, offset), x)
    }
    fn layer_norm_relu_backward(
        &self,
        affine: (&CpuMatrix, &CpuMatrix),
        saved: (&CpuMatrix, &CpuMatrix),
        dy: &mut CpuMatrix,
        grads: (&mut CpuMatrix, &mut CpuMatrix),
    ) {
        layer_norm::backward_relu(&self.threads, affine, saved, dy, grads);
    }
    fn relu(&self, x: &mut CpuMatrix) {
        row_wise::each_row(&self.threads, x, |_, values| kernels::relu(values));
    }
    fn relu_backward(&self, y: &CpuMatrix, dy: &mut CpuMatrix) {
        assert_same_shape(y, dy);
        row_wise::each_row(&self.threads, dy, |row, dy| kernels::relu_backward(y.row(row), dy));
    }
    fn dropout(&self, rate: f32, draws: Family, keys: &Vec<u32>, x: &mut CpuMatrix) {
        row_wise::dropout(&self.threads, rate, draws, keys, x);
    }
    fn dropped(&self, rate: f32, draws: Family, keys: &Vec<u32>, x: &CpuMatrix) -> CpuMatrix {
        row_wise::dropped(self, rate, draws, keys, x)
    }
    fn sparse_dropout(
        &self,
        rate: f32,
        draws: Family,
        keys: &Vec<u32>,
        x: &CpuSparse,
    ) -> CpuSparse {
        row_wise::sparse_dropout(self, rate, draws, keys, x)
    }

    fn softmax_cross_entropy(
        &self,
        logits: &CpuMatrix,
        rows: &Vec<u32>,
        classes: &Vec<u32>,
        dlogits: &mut CpuMatrix,
    ) -> f64 {
        loss::softmax_cross_entropy(&self.threads, logits, (rows, classes), dlogits)
    }
    fn binary_cross_entropy(
        &self,
        logits: &CpuMatrix,
        rows: &Vec<u32>,
        targets: &CpuMatrix,
        dlogits: &mut CpuMatrix,
    ) -> f64 {
        loss::binary_cross_entropy(&self.threads, logits, (rows, targets), dlogits)
    }
    fn adam(
        &self,
        step: &AdamStep,
        gradient: &CpuMatrix,
        moments: (&mut CpuMatrix, &mut CpuMatrix),
        weights: &mut CpuMatrix,
    ) {
        loss::adam(&self.threads, step, gradient, moments, weights);
    }
}
