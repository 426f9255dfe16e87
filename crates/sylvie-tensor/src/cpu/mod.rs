//! The CPU backend: the specification of every primitive.

mod aggregate;
mod attention;
mod dense;
mod kernels;
mod loss;
mod row_wise;
mod scatter;
mod sparse;
mod threads;
mod wire;

use std::io;

use sylvie_graph::{Block, DenseMatrix, SparseMatrix};
use sylvie_random::Family;

pub use self::aggregate::CpuAdjacency;
pub use self::sparse::CpuSparse;
use self::threads::Threads;
use crate::backend::{AdamStep, Attention, AttentionGrads, AttentionRows, Backend, Mode};

/// Computes on the threads of one rank.
#[derive(Clone, Debug)]
pub struct CpuBackend {
    threads: Threads,
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
        Ok(Self { threads: Threads::try_new(n_threads)? })
    }
}

pub(crate) fn zeros(n_rows: usize, n_cols: usize) -> DenseMatrix {
    matrix(n_rows, n_cols, vec![0.0; n_rows * n_cols])
}

fn matrix(n_rows: usize, n_cols: usize, values: Vec<f32>) -> DenseMatrix {
    let found = values.len();
    match DenseMatrix::new(n_rows, n_cols, values) {
        Ok(matrix) => matrix,
        Err(_) => panic!("{found} values for a matrix of {n_rows} x {n_cols}"),
    }
}

fn assert_same_shape(x: &DenseMatrix, y: &DenseMatrix) {
    assert_eq!((x.n_rows(), x.n_cols()), (y.n_rows(), y.n_cols()), "shapes of two matrices");
}

impl Backend for CpuBackend {
    type Matrix = DenseMatrix;
    type Sparse = CpuSparse;
    type Adjacency = CpuAdjacency;
    type Index = Vec<u32>;

    fn zeros(&self, n_rows: usize, n_cols: usize) -> DenseMatrix {
        zeros(n_rows, n_cols)
    }
    fn upload(&self, n_rows: usize, n_cols: usize, values: &[f32]) -> DenseMatrix {
        matrix(n_rows, n_cols, values.to_vec())
    }
    fn download(&self, x: &DenseMatrix) -> Vec<f32> {
        x.values().to_vec()
    }
    fn copy(&self, x: &DenseMatrix) -> DenseMatrix {
        x.clone()
    }
    fn shape(&self, x: &DenseMatrix) -> (usize, usize) {
        (x.n_rows(), x.n_cols())
    }
    fn upload_index(&self, values: &[u32]) -> Vec<u32> {
        values.to_vec()
    }
    fn upload_sparse(&self, x: &SparseMatrix) -> CpuSparse {
        CpuSparse::new(x)
    }
    fn upload_block(&self, block: &Block) -> CpuAdjacency {
        CpuAdjacency::new(block)
    }

    fn matmul(&self, a: &DenseMatrix, b: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
        dense::matmul(&self.threads, a, b, mode, out);
    }
    fn matmul_tn(&self, a: &DenseMatrix, b: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
        dense::matmul_tn(&self.threads, a, b, mode, out);
    }
    fn matmul_nt(&self, a: &DenseMatrix, b: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
        dense::matmul_nt(&self.threads, a, b, mode, out);
    }
    fn sparse_matmul(&self, a: &CpuSparse, b: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
        sparse::sparse_matmul(&self.threads, a, b, mode, out);
    }
    fn sparse_matmul_tn(&self, a: &CpuSparse, b: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
        sparse::sparse_matmul_tn(&self.threads, a, b, mode, out);
    }

    fn scale_rows(&self, factors: &DenseMatrix, x: &mut DenseMatrix) {
        assert_eq!((factors.n_rows(), factors.n_cols()), (x.n_rows(), 1), "shape of row factors");
        row_wise::each_row(&self.threads, x, |row, values| {
            let factor = factors.values()[row];
            values.iter_mut().for_each(|value| *value *= factor);
        });
    }
    fn add_scaled_rows(&self, x: &DenseMatrix, factors: &DenseMatrix, out: &mut DenseMatrix) {
        assert_same_shape(x, out);
        assert_eq!((factors.n_rows(), factors.n_cols()), (x.n_rows(), 1), "shape of row factors");
        row_wise::each_row(&self.threads, out, |row, sums| {
            kernels::add_scaled(factors.values()[row], x.row(row), sums);
        });
    }
    fn add_bias(&self, bias: &DenseMatrix, x: &mut DenseMatrix) {
        assert_eq!((bias.n_rows(), bias.n_cols()), (1, x.n_cols()), "shape of a bias");
        row_wise::each_row(&self.threads, x, |_, values| {
            kernels::add_scaled(1.0, bias.values(), values);
        });
    }
    fn column_sums(&self, x: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
        row_wise::column_sums(&self.threads, x, mode, out);
    }
    fn scatter_add(&self, x: &DenseMatrix, rows: &Vec<u32>, out: &mut DenseMatrix) {
        scatter::scatter_add(&self.threads, x, rows, out);
    }
    fn smooth(&self, decay: f32, x: &DenseMatrix, average: &mut DenseMatrix) {
        assert_same_shape(x, average);
        let rest = 1.0 - decay;
        row_wise::each_row(&self.threads, average, |row, average| {
            for (average, &x) in average.iter_mut().zip(x.row(row)) {
                *average = decay * *average + rest * x;
            }
        });
    }
    fn fill_zero(&self, x: &mut DenseMatrix) {
        row_wise::each_row(&self.threads, x, |_, values| values.fill(0.0));
    }

    fn aggregate(
        &self,
        block: &CpuAdjacency,
        column_scale: Option<&DenseMatrix>,
        x: &DenseMatrix,
        out: &mut DenseMatrix,
    ) {
        aggregate::aggregate(&self.threads, block, column_scale, x, out);
    }
    fn aggregate_transposed(
        &self,
        block: &CpuAdjacency,
        column_scale: Option<&DenseMatrix>,
        dy: &DenseMatrix,
        out: &mut DenseMatrix,
    ) {
        aggregate::aggregate_transposed(&self.threads, block, column_scale, dy, out);
    }

    fn attention_scores(&self, x: &DenseMatrix, weights: &DenseMatrix) -> DenseMatrix {
        attention::scores(&self.threads, x, weights)
    }
    fn attention_scores_backward(
        &self,
        x: &DenseMatrix,
        weights: &DenseMatrix,
        dscores: &DenseMatrix,
        dx: &mut DenseMatrix,
        dweights: &mut DenseMatrix,
    ) {
        attention::scores_backward(&self.threads, (x, weights), dscores, dx, dweights);
    }
    fn attention_begin(
        &self,
        values: &DenseMatrix,
        source: &DenseMatrix,
        target: &DenseMatrix,
    ) -> Attention<DenseMatrix> {
        attention::begin(values, (source, target))
    }
    fn attention_add_block(
        &self,
        block: &CpuAdjacency,
        values: &DenseMatrix,
        source: &DenseMatrix,
        target: &DenseMatrix,
        state: &mut Attention<DenseMatrix>,
    ) {
        attention::add_block(&self.threads, block, values, (source, target), state);
    }
    fn attention_finish(&self, state: &mut Attention<DenseMatrix>) {
        attention::finish(&self.threads, state);
    }
    fn attention_self_backward(
        &self,
        values: &DenseMatrix,
        source: &DenseMatrix,
        target: &DenseMatrix,
        rows: AttentionRows<'_, DenseMatrix>,
        grads: AttentionGrads<'_, DenseMatrix>,
    ) {
        attention::self_backward(values, (source, target), rows, grads);
    }
    fn attention_block_backward(
        &self,
        block: &CpuAdjacency,
        values: &DenseMatrix,
        source: &DenseMatrix,
        target: &DenseMatrix,
        rows: AttentionRows<'_, DenseMatrix>,
        grads: AttentionGrads<'_, DenseMatrix>,
    ) {
        attention::block_backward(&self.threads, block, values, (source, target), rows, grads);
    }
    fn head_dots(&self, x: &DenseMatrix, y: &DenseMatrix, n_heads: usize) -> DenseMatrix {
        attention::head_dots(x, y, n_heads)
    }
    fn head_mean(&self, x: &DenseMatrix, n_heads: usize) -> DenseMatrix {
        attention::head_mean(x, n_heads)
    }
    fn head_mean_backward(&self, dy: &DenseMatrix, n_heads: usize) -> DenseMatrix {
        attention::head_mean_backward(dy, n_heads)
    }

    fn layer_norm(
        &self,
        gain: &DenseMatrix,
        offset: &DenseMatrix,
        x: &mut DenseMatrix,
    ) -> (DenseMatrix, DenseMatrix) {
        row_wise::layer_norm(&self.threads, gain, offset, x)
    }
    fn layer_norm_backward(
        &self,
        gain: &DenseMatrix,
        saved: (&DenseMatrix, &DenseMatrix),
        dy: &mut DenseMatrix,
        dgain: &mut DenseMatrix,
        doffset: &mut DenseMatrix,
    ) {
        row_wise::layer_norm_backward(&self.threads, gain, saved, dy, dgain, doffset);
    }
    fn relu(&self, x: &mut DenseMatrix) {
        row_wise::each_row(&self.threads, x, |_, values| {
            // Written so that a NaN stays one and is seen downstream; `max` would hide it.
            values.iter_mut().for_each(|value| *value = if *value <= 0.0 { 0.0 } else { *value });
        });
    }
    fn relu_backward(&self, y: &DenseMatrix, dy: &mut DenseMatrix) {
        assert_same_shape(y, dy);
        row_wise::each_row(&self.threads, dy, |row, dy| {
            for (dy, &y) in dy.iter_mut().zip(y.row(row)) {
                *dy = if y > 0.0 { *dy } else { 0.0 };
            }
        });
    }
    fn dropout(&self, rate: f32, draws: Family, keys: &Vec<u32>, x: &mut DenseMatrix) {
        row_wise::dropout(&self.threads, rate, draws, keys, x);
    }
    fn sparse_dropout(
        &self,
        rate: f32,
        draws: Family,
        keys: &Vec<u32>,
        x: &CpuSparse,
    ) -> CpuSparse {
        row_wise::sparse_dropout(&self.threads, rate, draws, keys, x)
    }

    fn softmax_cross_entropy(
        &self,
        logits: &DenseMatrix,
        rows: &Vec<u32>,
        classes: &Vec<u32>,
        dlogits: &mut DenseMatrix,
    ) -> f64 {
        loss::softmax_cross_entropy(&self.threads, logits, (rows, classes), dlogits)
    }
    fn binary_cross_entropy(
        &self,
        logits: &DenseMatrix,
        rows: &Vec<u32>,
        targets: &DenseMatrix,
        dlogits: &mut DenseMatrix,
    ) -> f64 {
        loss::binary_cross_entropy(&self.threads, logits, (rows, targets), dlogits)
    }
    fn adam(
        &self,
        step: &AdamStep,
        gradient: &DenseMatrix,
        moments: (&mut DenseMatrix, &mut DenseMatrix),
        weights: &mut DenseMatrix,
    ) {
        loss::adam(step, gradient, moments, weights);
    }
}
