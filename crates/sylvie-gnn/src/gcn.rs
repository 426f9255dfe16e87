//! Graph convolution: `y = D^-1/2 (A + I) D^-1/2 x W + b`, D counting the edge to oneself.
//!
//! Tensors: `w` [in, out], `b` [1, out].

use sylvie_tensor::{Backend, Mode};

use crate::factors::ColumnFactors;
use crate::input::{Context, Input};

/// Sum over the rows read so far, before the reader's own factor.
pub(crate) struct GcnPartial<B: Backend> {
    sum: B::Matrix,
}

/// `D^-1/2 (A + I) D^-1/2 x`.
pub(crate) struct GcnSaved<B: Backend> {
    aggregate: Input<B>,
}

pub(crate) fn begin<B: Backend>(ctx: Context<'_, B>, own: &B::Matrix) -> GcnPartial<B> {
    let (n_rows, n_cols) = ctx.backend.shape(own);
    let factors = &ctx.structure.gcn_factors;
    let mut sum = ctx.backend.zeros(n_rows, n_cols);
    ctx.backend.add_scaled_rows(own, factors, &mut sum);
    ctx.backend.aggregate(&ctx.structure.own, Some(factors), own, &mut sum);
    GcnPartial { sum }
}

/// What the edges of each halo row are multiplied by.
fn column_scale<'a, B: Backend>(
    ctx: Context<'a, B>,
    block: usize,
    factors: Option<&'a ColumnFactors<B>>,
) -> &'a B::Matrix {
    factors.map_or(&ctx.structure.halo[block].gcn_factors, ColumnFactors::scale)
}

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &B::Matrix,
    factors: Option<&ColumnFactors<B>>,
    partial: &mut GcnPartial<B>,
) {
    let edges = &ctx.structure.halo[block].edges;
    let scale = column_scale(ctx, block, factors);
    ctx.backend.aggregate(edges, Some(scale), halo, &mut partial.sum);
}

/// The aggregate of all rows read.
pub(crate) fn aggregate<B: Backend>(ctx: Context<'_, B>, mut partial: GcnPartial<B>) -> B::Matrix {
    ctx.backend.scale_rows(&ctx.structure.gcn_factors, &mut partial.sum);
    partial.sum
}

/// `aggregate W + b`.
pub(crate) fn update<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    aggregate: Input<B>,
) -> (B::Matrix, GcnSaved<B>) {
    let [w, b, ..] = weights else { panic!("{} tensors for a GCN layer", weights.len()) };
    let mut y = ctx.backend.matrix_to_assign(ctx.structure.n_local, ctx.backend.shape(w).1);
    aggregate.matmul(ctx.backend, w, Mode::Assign, &mut y);
    ctx.backend.add_bias(b, &mut y);
    (y, GcnSaved { aggregate })
}

/// The gradient of the sum over all rows read, which flows back over the same edges with the same
/// factors.
pub(crate) fn sum_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
) -> B::Matrix {
    let n_cols = ctx.backend.shape(&weights[0]).0;
    let mut dsum = ctx.backend.matrix_to_assign(ctx.structure.n_local, n_cols);
    ctx.backend.matmul_nt(dy, &weights[0], Mode::Assign, &mut dsum);
    ctx.backend.scale_rows(&ctx.structure.gcn_factors, &mut dsum);
    dsum
}

/// The gradient of a block's rows.
pub(crate) fn block_gradient<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    factors: Option<&ColumnFactors<B>>,
    dsum: &B::Matrix,
) -> B::Matrix {
    let (rows, scale) = (&ctx.structure.halo[block], column_scale(ctx, block, factors));
    let mut gradient = ctx.backend.zeros(rows.n_rows, ctx.backend.shape(dsum).1);
    ctx.backend.aggregate_transposed(&rows.edges, Some(scale), dsum, &mut gradient);
    gradient
}

/// The gradient of the own rows.
pub(crate) fn own_gradient<B: Backend>(ctx: Context<'_, B>, dsum: &B::Matrix) -> B::Matrix {
    let (n_rows, n_cols) = ctx.backend.shape(dsum);
    let factors = &ctx.structure.gcn_factors;
    let mut own = ctx.backend.zeros(n_rows, n_cols);
    ctx.backend.add_scaled_rows(dsum, factors, &mut own);
    ctx.backend.aggregate_transposed(&ctx.structure.own, Some(factors), dsum, &mut own);
    own
}

/// Assigns the gradients of `w` and `b`.
pub(crate) fn weight_gradients<B: Backend>(
    ctx: Context<'_, B>,
    saved: &GcnSaved<B>,
    dy: &B::Matrix,
    grads: &mut [B::Matrix],
) {
    saved.aggregate.matmul_tn(ctx.backend, dy, Mode::Assign, &mut grads[0]);
    ctx.backend.column_sums(dy, Mode::Assign, &mut grads[1]);
}
