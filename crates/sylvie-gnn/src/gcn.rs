//! Graph convolution: `y = D^-1/2 (A + I) D^-1/2 x W + b`, D counting the edge to oneself.
//!
//! Tensors: `w` [in, out], `b` [1, out].

use sylvie_tensor::{Backend, Mode};

use crate::input::{Context, Input, InputGrads};

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

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &B::Matrix,
    partial: &mut GcnPartial<B>,
) {
    let block = &ctx.structure.halo[block];
    ctx.backend.aggregate(&block.edges, Some(&block.gcn_factors), halo, &mut partial.sum);
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
    let mut y = ctx.backend.zeros(ctx.structure.n_local, ctx.backend.shape(w).1);
    aggregate.matmul(ctx.backend, w, Mode::Assign, &mut y);
    ctx.backend.add_bias(b, &mut y);
    (y, GcnSaved { aggregate })
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

/// Gradients flow back over the same edges with the same factors.
pub(crate) fn input_gradients<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
) -> InputGrads<B> {
    let (backend, structure) = (ctx.backend, ctx.structure);
    let n_cols = backend.shape(&weights[0]).0;
    let mut daggregate = backend.zeros(structure.n_local, n_cols);
    backend.matmul_nt(dy, &weights[0], Mode::Assign, &mut daggregate);
    backend.scale_rows(&structure.gcn_factors, &mut daggregate);

    let mut own = backend.zeros(structure.n_local, n_cols);
    backend.add_scaled_rows(&daggregate, &structure.gcn_factors, &mut own);
    let factors = Some(&structure.gcn_factors);
    backend.aggregate_transposed(&structure.own, factors, &daggregate, &mut own);
    let halo = structure.halo.iter().map(|block| {
        let mut gradient = backend.zeros(block.n_rows, n_cols);
        let factors = Some(&block.gcn_factors);
        backend.aggregate_transposed(&block.edges, factors, &daggregate, &mut gradient);
        gradient
    });
    InputGrads { own, halo: halo.collect() }
}
