//! The primitives that models are written in.

use std::borrow::Cow;

use sylvie_graph::{Block, SparseMatrix};
use sylvie_random::Family;

use crate::gathering::Gather;
use crate::operands::{AdamStep, Attention, AttentionGrads, AttentionRows, Mode, SumFactors};

/// A machine that computes on row-major f32 matrices.
///
/// Shapes that do not fit are a broken contract and panic. Every operation gives the same bits for the
/// same input, whatever the number of threads.
///
/// # Example
/// A layer on any machine.
///
/// ```
/// use sylvie_tensor::{Backend, CpuBackend, Mode};
///
/// /// `max(x w + bias, 0)`.
/// fn layer<B: Backend>(backend: &B, x: &B::Matrix, w: &B::Matrix, bias: &B::Matrix) -> B::Matrix {
///     let (n_rows, n_cols) = (backend.shape(x).0, backend.shape(w).1);
///     let mut y = backend.matrix_to_assign(n_rows, n_cols);
///     backend.matmul_bias(x, w, Mode::Assign, bias, &mut y);
///     backend.relu(&mut y);
///     y
/// }
///
/// let backend = CpuBackend::new(1);
/// let x = backend.upload(2, 2, &[1.0, 2.0, 3.0, 8.0]);
/// let (w, bias) = (backend.upload(2, 1, &[1.0, -0.5]), backend.upload(1, 1, &[0.5]));
/// assert_eq!(backend.download(&layer(&backend, &x, &w, &bias)), [0.5, 0.0]);
/// ```
pub trait Backend: Clone + Send + Sync + 'static {
    /// A row-major matrix of f32.
    type Matrix: Send + Sync + 'static;
    /// A sparse matrix of f32.
    type Sparse: Send + Sync + 'static;
    /// The edges of one block, readable by row and by column.
    type Adjacency: Send + Sync + 'static;
    /// A list of 32-bit numbers: rows, classes or random keys.
    type Index: Send + Sync + 'static;
    /// Rows as their codec packed them, on a backend whose sums over neighbours decode them; else a matrix.
    type Packed: Send + Sync + 'static;

    /// This backend with sums over neighbours that gather such rows; nothing where it has none.
    ///
    /// With [`Gather::Bf16`] [`Backend::aggregate`], [`Backend::aggregated`] and their transposes round what
    /// they gather, with [`Backend::aggregate`] times the column's factor, to bf16 (to nearest, ties to even)
    /// and add it in f32; a row's own term is not rounded. Blocks with few edges a row are summed in f32:
    /// which ones is up to the backend, and follows from the block alone. Attention gathers f32.
    ///
    /// # Cost
    /// Both share threads and memory.
    fn gathering(&self, gather: Gather) -> Option<Self> {
        (gather == Gather::F32).then(|| self.clone())
    }

    /// A matrix of zeros.
    fn zeros(&self, n_rows: usize, n_cols: usize) -> Self::Matrix;
    /// A matrix whose contents are unspecified, for a result that assigns all of them: what
    /// [`Mode::Assign`] products, decoding or a copy fill need not be zeroed first.
    ///
    /// The contents are old values, not uninitialised memory: reading them is a fault of logic, no more.
    fn matrix_to_assign(&self, n_rows: usize, n_cols: usize) -> Self::Matrix {
        self.zeros(n_rows, n_cols)
    }
    /// A matrix from `n_rows * n_cols` host values.
    fn upload(&self, n_rows: usize, n_cols: usize, values: &[f32]) -> Self::Matrix;
    /// Host copy of a matrix, row after row.
    fn download(&self, x: &Self::Matrix) -> Vec<f32>;
    /// The values of a matrix on the host, row after row: not copied where they are there already.
    fn host_values<'a>(&self, x: &'a Self::Matrix) -> Cow<'a, [f32]> {
        Cow::Owned(self.download(x))
    }
    /// A copy on the same machine.
    fn copy(&self, x: &Self::Matrix) -> Self::Matrix;
    /// Rows and columns.
    fn shape(&self, x: &Self::Matrix) -> (usize, usize);
    /// A list from host values.
    fn upload_index(&self, values: &[u32]) -> Self::Index;
    /// A sparse matrix from the host.
    fn upload_sparse(&self, x: &SparseMatrix) -> Self::Sparse;
    /// The edges of a block; its rows are local rows.
    fn upload_block(&self, block: &Block) -> Self::Adjacency;

    /// `out (+)= a b`. Shapes: `a` m x k, `b` k x n, `out` m x n.
    fn matmul(&self, a: &Self::Matrix, b: &Self::Matrix, mode: Mode, out: &mut Self::Matrix);
    /// `out (+)= a^T b`. Shapes: `a` k x m, `b` k x n, `out` m x n.
    fn matmul_tn(&self, a: &Self::Matrix, b: &Self::Matrix, mode: Mode, out: &mut Self::Matrix);
    /// `out (+)= a b^T`. Shapes: `a` m x k, `b` n x k, `out` m x n.
    fn matmul_nt(&self, a: &Self::Matrix, b: &Self::Matrix, mode: Mode, out: &mut Self::Matrix);
    /// `out (+)= a b`, then adds `bias` (`1 x n`) to each row: [`Backend::matmul`] and
    /// [`Backend::add_bias`] in one pass.
    fn matmul_bias(
        &self,
        a: &Self::Matrix,
        b: &Self::Matrix,
        mode: Mode,
        bias: &Self::Matrix,
        out: &mut Self::Matrix,
    ) {
        self.matmul(a, b, mode, out);
        self.add_bias(bias, out);
    }
    /// `a b^T` with each row times its entry of `factors` (`m x 1`): [`Backend::matmul_nt`] and
    /// [`Backend::scale_rows`] in one pass.
    fn matmul_nt_scaled(
        &self,
        a: &Self::Matrix,
        b: &Self::Matrix,
        factors: &Self::Matrix,
    ) -> Self::Matrix {
        let mut out = self.matrix_to_assign(self.shape(a).0, self.shape(b).0);
        self.matmul_nt(a, b, Mode::Assign, &mut out);
        self.scale_rows(factors, &mut out);
        out
    }
    /// `out (+)= a b` with a sparse `a`.
    fn sparse_matmul(&self, a: &Self::Sparse, b: &Self::Matrix, mode: Mode, out: &mut Self::Matrix);
    /// `out (+)= a^T b` with a sparse `a`.
    fn sparse_matmul_tn(
        &self,
        a: &Self::Sparse,
        b: &Self::Matrix,
        mode: Mode,
        out: &mut Self::Matrix,
    );

    /// Each row of `x` times its entry of `factors` (`n x 1`).
    fn scale_rows(&self, factors: &Self::Matrix, x: &mut Self::Matrix);
    /// `out[i] += factors[i] * x[i]` for each row `i`.
    fn add_scaled_rows(&self, x: &Self::Matrix, factors: &Self::Matrix, out: &mut Self::Matrix);
    /// Adds `bias` (`1 x n`) to each row of `x`.
    fn add_bias(&self, bias: &Self::Matrix, x: &mut Self::Matrix);
    /// `out (+)=` the sum of the rows of `x`; `out` is `1 x n`.
    fn column_sums(&self, x: &Self::Matrix, mode: Mode, out: &mut Self::Matrix);
    /// `out[rows[i]] += x[i]` for each `i`.
    ///
    /// # Shapes
    /// `x` n x d, `rows` n, `out` any number of rows x d.
    /// # Panics
    /// If the shapes do not fit or an entry of `rows` is not a row of `out`. The entries are distinct:
    /// with one that occurs twice, what its row becomes is unspecified.
    fn scatter_add(&self, x: &Self::Matrix, rows: &Self::Index, out: &mut Self::Matrix);
    /// `average = decay * average + (1 - decay) * x`, value by value: an exponential moving average.
    ///
    /// `1 - decay` is rounded once; then each value takes two multiplications and one addition, each
    /// rounded to f32, none fused: `(decay * average) + ((1 - decay) * x)`.
    ///
    /// # Paper
    /// The smoothing of PipeGCN.
    fn smooth(&self, decay: f32, x: &Self::Matrix, average: &mut Self::Matrix);

    /// `out[v] += sum over the block's edges (u, v) of column_scale[u] * x[u]`, in column order.
    ///
    /// A column whose factor is 0 is left out: its row of `x` is not read and may hold anything.
    ///
    /// Shapes: `x` columns-of-block x d, `column_scale` columns-of-block x 1, `out` n_local x d.
    fn aggregate(
        &self,
        block: &Self::Adjacency,
        column_scale: Option<&Self::Matrix>,
        x: &Self::Matrix,
        out: &mut Self::Matrix,
    );
    /// [`Backend::aggregate`] of [`Backend::unpacked`] rows, bit for bit.
    fn aggregate_packed(
        &self,
        block: &Self::Adjacency,
        column_scale: Option<&Self::Matrix>,
        x: &Self::Packed,
        out: &mut Self::Matrix,
    );
    /// `x` after [`Backend::dropout`], which is done once.
    fn packed_dropped(
        &self,
        rate: f32,
        draws: Family,
        keys: &Self::Index,
        x: &Self::Packed,
    ) -> Self::Packed;
    /// Rows and columns of packed rows.
    fn packed_shape(&self, x: &Self::Packed) -> (usize, usize);
    /// Packed rows as floats.
    fn unpacked(&self, x: &Self::Packed) -> Self::Matrix;
    /// `out[u] += column_scale[u] * sum over the block's edges (u, v) of dy[v]`, in row order: the
    /// backward of [`Backend::aggregate`].
    ///
    /// The row of `out` of a column whose factor is 0 is neither read nor written.
    fn aggregate_transposed(
        &self,
        block: &Self::Adjacency,
        column_scale: Option<&Self::Matrix>,
        dy: &Self::Matrix,
        out: &mut Self::Matrix,
    );
    /// `factors.row[v] * (factors.own[v] * x[v] + sum over edges (u, v) of factors.column[u] * x[u])`, in
    /// that order: [`Backend::aggregate`] onto zeros with what is done before and after, in one pass.
    ///
    /// # Shapes
    /// Result `n_local x d`. With `own` factors the columns of the block are the rows themselves.
    fn aggregated(
        &self,
        block: &Self::Adjacency,
        factors: SumFactors<'_, Self::Matrix>,
        x: &Self::Matrix,
        n_local: usize,
    ) -> Self::Matrix {
        let mut out = self.zeros(n_local, self.shape(x).1);
        if let Some(own) = factors.own {
            self.add_scaled_rows(x, own, &mut out);
        }
        self.aggregate(block, factors.column, x, &mut out);
        if let Some(row) = factors.row {
            self.scale_rows(row, &mut out);
        }
        out
    }
    /// `factors.own[u] * dy[u] + factors.column[u] * sum over edges (u, v) of dy[v]`: the backward of
    /// [`Backend::aggregated`] from gradients that were multiplied by `factors.row` before.
    ///
    /// # Shapes
    /// Result `n_columns x d`, of the `n_columns` columns of the block.
    /// # Panics
    /// If there are factors of rows.
    fn aggregated_transposed(
        &self,
        block: &Self::Adjacency,
        factors: SumFactors<'_, Self::Matrix>,
        dy: &Self::Matrix,
        n_columns: usize,
    ) -> Self::Matrix {
        assert!(factors.row.is_none(), "factors of rows in a transposed sum, which has none");
        let mut out = self.zeros(n_columns, self.shape(dy).1);
        if let Some(own) = factors.own {
            self.add_scaled_rows(dy, own, &mut out);
        }
        self.aggregate_transposed(block, factors.column, dy, &mut out);
        out
    }

    /// Attention scores `out[i][h] = x[i][h] . weights[h]`.
    ///
    /// Shapes: `x` n x (heads * width), `weights` heads x width, `out` n x heads.
    fn attention_scores(&self, x: &Self::Matrix, weights: &Self::Matrix) -> Self::Matrix;
    /// Backward of [`Backend::attention_scores`]: adds to `dx` and `dweights`.
    fn attention_scores_backward(
        &self,
        x: &Self::Matrix,
        weights: &Self::Matrix,
        dscores: &Self::Matrix,
        dx: &mut Self::Matrix,
        dweights: &mut Self::Matrix,
    );
    /// Starts attention with each row's edge to itself: score `leaky(source + target)`.
    fn attention_begin(
        &self,
        values: &Self::Matrix,
        source: &Self::Matrix,
        target: &Self::Matrix,
    ) -> Attention<Self::Matrix>;
    /// Adds the edges of a block, in column order.
    ///
    /// In a head where a column's source score is minus infinity the column takes no part, here and in
    /// the backward pass: its values are not read and may hold anything, its gradients are 0. The same
    /// holds for a row's edge to itself. A row that no column takes part in has zeros for its mean and
    /// minus infinity for its log of the sum.
    fn attention_add_block(
        &self,
        block: &Self::Adjacency,
        values: &Self::Matrix,
        source: &Self::Matrix,
        target: &Self::Matrix,
        state: &mut Attention<Self::Matrix>,
    );
    /// Divides by the sums: `values` become means, `max` the log of the sum of exponentials.
    fn attention_finish(&self, state: &mut Attention<Self::Matrix>);
    /// Backward of the edges to oneself. `dot` is `dy . output`, `n_local x heads`.
    fn attention_self_backward(
        &self,
        values: &Self::Matrix,
        source: &Self::Matrix,
        target: &Self::Matrix,
        rows: AttentionRows<'_, Self::Matrix>,
        grads: AttentionGrads<'_, Self::Matrix>,
    );
    /// Backward of a block's edges.
    fn attention_block_backward(
        &self,
        block: &Self::Adjacency,
        values: &Self::Matrix,
        source: &Self::Matrix,
        target: &Self::Matrix,
        rows: AttentionRows<'_, Self::Matrix>,
        grads: AttentionGrads<'_, Self::Matrix>,
    );
    /// `out[i][h] = x[i][h] . y[i][h]`. Shapes: `y` n x (heads * width), `x` the same or a gradient as
    /// [`Backend::head_mean_backward`] gives it, result n x heads.
    fn head_dots(&self, x: &Self::Matrix, y: &Self::Matrix, n_heads: usize) -> Self::Matrix;
    /// Mean over heads. Shapes: `x` n x (heads * width), result n x width.
    fn head_mean(&self, x: &Self::Matrix, n_heads: usize) -> Self::Matrix;
    /// Backward of [`Backend::head_mean`]: each head gets `dy / heads`. Shapes: `dy` n x width, result
    /// n x width, which all heads share, or n x (heads * width), as the backend's attention goes back from it.
    fn head_mean_backward(&self, dy: &Self::Matrix, n_heads: usize) -> Self::Matrix;

    /// Normalises each row: `(x - mean) / sqrt(var + 1e-5) * gain + offset`, in place; returns the
    /// normalised rows before gain and offset, and `1 / sqrt(var + 1e-5)` (`n x 1`).
    fn layer_norm(
        &self,
        gain: &Self::Matrix,
        offset: &Self::Matrix,
        x: &mut Self::Matrix,
    ) -> (Self::Matrix, Self::Matrix);
    /// Backward of [`Backend::layer_norm`]: turns `dy` into `dx` in place and assigns the gradients of
    /// gain and offset.
    fn layer_norm_backward(
        &self,
        gain: &Self::Matrix,
        saved: (&Self::Matrix, &Self::Matrix),
        dy: &mut Self::Matrix,
        dgain: &mut Self::Matrix,
        doffset: &mut Self::Matrix,
    );
    /// `max(x, 0)` in place; a NaN stays one.
    fn relu(&self, x: &mut Self::Matrix);
    /// Zeroes `dy` where the output `y` of [`Backend::relu`] is 0.
    fn relu_backward(&self, y: &Self::Matrix, dy: &mut Self::Matrix);
    /// [`Backend::layer_norm`], then [`Backend::relu`], in one pass.
    fn layer_norm_relu(
        &self,
        gain: &Self::Matrix,
        offset: &Self::Matrix,
        x: &mut Self::Matrix,
    ) -> (Self::Matrix, Self::Matrix) {
        let saved = self.layer_norm(gain, offset, x);
        self.relu(x);
        saved
    }
    /// `max(x * gain + offset, 0)`, gain and offset one a column; a NaN stays one. From the normalised rows of
    /// [`Backend::layer_norm_relu`] it makes what that left, bit for bit.
    ///
    /// # Shapes
    /// `gain` and `offset` `1 x d`, `x` and the result `n x d`.
    fn affine_relu(
        &self,
        gain: &Self::Matrix,
        offset: &Self::Matrix,
        x: &Self::Matrix,
    ) -> Self::Matrix;
    /// Backward of [`Backend::layer_norm_relu`], in place, from gain and offset and from what it returned.
    fn layer_norm_relu_backward(
        &self,
        (gain, offset): (&Self::Matrix, &Self::Matrix),
        saved: (&Self::Matrix, &Self::Matrix),
        dy: &mut Self::Matrix,
        grads: (&mut Self::Matrix, &mut Self::Matrix),
    ) {
        self.relu_backward(&self.affine_relu(gain, offset, saved.0), dy);
        self.layer_norm_backward(gain, saved, dy, grads.0, grads.1);
    }
    /// Drops values with probability `rate` and scales the rest by `1 / (1 - rate)`, in place. The mask
    /// is a function of `draws`, the row's key and the column. Its own backward.
    fn dropout(&self, rate: f32, draws: Family, keys: &Self::Index, x: &mut Self::Matrix);
    /// A copy of `x` after [`Backend::dropout`], in one pass.
    fn dropped(
        &self,
        rate: f32,
        draws: Family,
        keys: &Self::Index,
        x: &Self::Matrix,
    ) -> Self::Matrix {
        let mut dropped = self.copy(x);
        self.dropout(rate, draws, keys, &mut dropped);
        dropped
    }
    /// The same for the stored values of a sparse matrix; a value's mask is that of its place.
    fn sparse_dropout(
        &self,
        rate: f32,
        draws: Family,
        keys: &Self::Index,
        x: &Self::Sparse,
    ) -> Self::Sparse;

    /// Sum over `rows` of the cross-entropy of `logits` with `classes`; assigns `dlogits`.
    fn softmax_cross_entropy(
        &self,
        logits: &Self::Matrix,
        rows: &Self::Index,
        classes: &Self::Index,
        dlogits: &mut Self::Matrix,
    ) -> f64;
    /// Sum over `rows` of the mean over classes of the binary cross-entropy with logits; assigns
    /// `dlogits`. `targets`: one row an entry of `rows`.
    fn binary_cross_entropy(
        &self,
        logits: &Self::Matrix,
        rows: &Self::Index,
        targets: &Self::Matrix,
        dlogits: &mut Self::Matrix,
    ) -> f64;
    /// One Adam step as `torch.optim.Adam` does it.
    fn adam(
        &self,
        step: &AdamStep,
        gradient: &Self::Matrix,
        moments: (&mut Self::Matrix, &mut Self::Matrix),
        weights: &mut Self::Matrix,
    );
}
