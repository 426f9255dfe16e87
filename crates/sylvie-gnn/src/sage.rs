//! GraphSAGE with mean aggregation: `y = x W_self + mean over N(v) of x W_neigh + b`.
//!
//! Tensors: `w_self` [in, out], `w_neigh` [in, out], `b` [1, out]. A node without neighbours has mean 0.

use sylvie_tensor::{Backend, Mode};

use crate::factors::ColumnFactors;
use crate::input::{Context, Input};

/// Own rows, their share of the output, and the sum over the neighbours read so far.
pub(crate) struct SagePartial<B: Backend> {
    own: OwnProduct<B>,
    sum: B::Matrix,
}

/// Own rows after dropout, and `own W_self`.
struct OwnProduct<B: Backend> {
    own: Input<B>,
    y: B::Matrix,
}

impl<B: Backend> OwnProduct<B> {
    fn new(ctx: Context<'_, B>, weights: &[B::Matrix], own: Input<B>) -> Self {
        let [w_self, _, _, ..] = weights else {
            panic!("{} tensors for a SAGE layer", weights.len())
        };
        let n_cols = ctx.backend.shape(w_self).1;
        let mut y = ctx.backend.matrix_to_assign(ctx.structure.n_local, n_cols);
        own.matmul(ctx.backend, w_self, Mode::Assign, &mut y);
        Self { own, y }
    }

    /// Adds `mean W_neigh + b`.
    fn update(
        self,
        ctx: Context<'_, B>,
        weights: &[B::Matrix],
        mean: Input<B>,
    ) -> (B::Matrix, SageSaved<B>) {
        let Self { own, mut y } = self;
        mean.matmul(ctx.backend, &weights[1], Mode::Add, &mut y);
        ctx.backend.add_bias(&weights[2], &mut y);
        (y, SageSaved { own, mean })
    }
}

/// Own rows and neighbours' means, both after dropout.
pub(crate) struct SageSaved<B: Backend> {
    own: Input<B>,
    mean: Input<B>,
}

/// The sum over own neighbours.
pub(crate) fn own_sum<B: Backend>(ctx: Context<'_, B>, own: &B::Matrix) -> B::Matrix {
    let (n_rows, n_cols) = ctx.backend.shape(own);
    let mut sum = ctx.backend.zeros(n_rows, n_cols);
    ctx.backend.aggregate(&ctx.structure.own, None, own, &mut sum);
    sum
}

/// Adds a block's rows to the sum.
pub(crate) fn add_rows<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &B::Matrix,
    factors: Option<&ColumnFactors<B>>,
    sum: &mut B::Matrix,
) {
    let edges = &ctx.structure.halo[block].edges;
    ctx.backend.aggregate(edges, factors.map(ColumnFactors::scale), halo, sum);
}

/// The mean from the sum over all neighbours read.
pub(crate) fn mean<B: Backend>(ctx: Context<'_, B>, mut sum: B::Matrix) -> B::Matrix {
    ctx.backend.scale_rows(&ctx.structure.mean_factors, &mut sum);
    sum
}

pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: Input<B>,
    own_rows: &B::Matrix,
) -> SagePartial<B> {
    let sum = own_sum(ctx, own_rows);
    SagePartial { own: OwnProduct::new(ctx, weights, own), sum }
}

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &B::Matrix,
    factors: Option<&ColumnFactors<B>>,
    partial: &mut SagePartial<B>,
) {
    add_rows(ctx, block, halo, factors, &mut partial.sum);
}

/// `own W_self + mean W_neigh + b`.
pub(crate) fn finish<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    partial: SagePartial<B>,
) -> (B::Matrix, SageSaved<B>) {
    let mean = Input::dense(mean(ctx, partial.sum));
    partial.own.update(ctx, weights, mean)
}

/// The same from own rows and means that were computed before.
pub(crate) fn from_mean<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: Input<B>,
    mean: Input<B>,
) -> (B::Matrix, SageSaved<B>) {
    OwnProduct::new(ctx, weights, own).update(ctx, weights, mean)
}

/// The gradient of the sum over all neighbours, which flows back over the same edges.
pub(crate) fn sum_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
) -> B::Matrix {
    let n_cols = ctx.backend.shape(&weights[1]).0;
    let mut dsum = ctx.backend.matrix_to_assign(ctx.structure.n_local, n_cols);
    ctx.backend.matmul_nt(dy, &weights[1], Mode::Assign, &mut dsum);
    ctx.backend.scale_rows(&ctx.structure.mean_factors, &mut dsum);
    dsum
}

/// The gradient of a block's rows.
pub(crate) fn block_gradient<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    factors: Option<&ColumnFactors<B>>,
    dsum: &B::Matrix,
) -> B::Matrix {
    let rows = &ctx.structure.halo[block];
    let mut gradient = ctx.backend.zeros(rows.n_rows, ctx.backend.shape(dsum).1);
    let scale = factors.map(ColumnFactors::scale);
    ctx.backend.aggregate_transposed(&rows.edges, scale, dsum, &mut gradient);
    gradient
}

/// The gradient of the own rows.
pub(crate) fn own_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
    dsum: &B::Matrix,
) -> B::Matrix {
    let (n_rows, n_cols) = ctx.backend.shape(dsum);
    let mut own = ctx.backend.zeros(n_rows, n_cols);
    ctx.backend.matmul_nt(dy, &weights[0], Mode::Assign, &mut own);
    ctx.backend.aggregate_transposed(&ctx.structure.own, None, dsum, &mut own);
    own
}

/// Assigns the gradients of `w_self`, `w_neigh` and `b`.
pub(crate) fn weight_gradients<B: Backend>(
    ctx: Context<'_, B>,
    saved: &SageSaved<B>,
    dy: &B::Matrix,
    grads: &mut [B::Matrix],
) {
    saved.own.matmul_tn(ctx.backend, dy, Mode::Assign, &mut grads[0]);
    saved.mean.matmul_tn(ctx.backend, dy, Mode::Assign, &mut grads[1]);
    ctx.backend.column_sums(dy, Mode::Assign, &mut grads[2]);
}
