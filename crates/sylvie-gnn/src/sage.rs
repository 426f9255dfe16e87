//! GraphSAGE with mean aggregation: `y = x W_self + mean over N(v) of x W_neigh + b`.
//!
//! Tensors: `w_self` [in, out], `w_neigh` [in, out], `b` [1, out]. A node without neighbours has mean 0.

use sylvie_tensor::{Backend, Mode};

use crate::input::{Context, Input, InputGrads};

/// Own rows, and the sum over the neighbours read so far.
pub(crate) struct SagePartial<B: Backend> {
    own: Input<B>,
    sum: B::Matrix,
}

/// Own rows and neighbours' means, both after dropout.
pub(crate) struct SageSaved<B: Backend> {
    own: Input<B>,
    mean: Input<B>,
}

pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    own: Input<B>,
    own_rows: &B::Matrix,
) -> SagePartial<B> {
    let (n_rows, n_cols) = ctx.backend.shape(own_rows);
    let mut sum = ctx.backend.zeros(n_rows, n_cols);
    ctx.backend.aggregate(&ctx.structure.own, None, own_rows, &mut sum);
    SagePartial { own, sum }
}

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &B::Matrix,
    partial: &mut SagePartial<B>,
) {
    ctx.backend.aggregate(&ctx.structure.halo[block].edges, None, halo, &mut partial.sum);
}

/// The own rows and the mean of all neighbours read.
pub(crate) fn aggregate<B: Backend>(
    ctx: Context<'_, B>,
    mut partial: SagePartial<B>,
) -> (Input<B>, B::Matrix) {
    ctx.backend.scale_rows(&ctx.structure.mean_factors, &mut partial.sum);
    (partial.own, partial.sum)
}

/// `own W_self + mean W_neigh + b`.
pub(crate) fn update<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: Input<B>,
    mean: Input<B>,
) -> (B::Matrix, SageSaved<B>) {
    let [w_self, w_neigh, b, ..] = weights else {
        panic!("{} tensors for a SAGE layer", weights.len())
    };
    let mut y = ctx.backend.zeros(ctx.structure.n_local, ctx.backend.shape(w_self).1);
    own.matmul(ctx.backend, w_self, Mode::Assign, &mut y);
    mean.matmul(ctx.backend, w_neigh, Mode::Add, &mut y);
    ctx.backend.add_bias(b, &mut y);
    (y, SageSaved { own, mean })
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

pub(crate) fn input_gradients<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
) -> InputGrads<B> {
    let (backend, structure) = (ctx.backend, ctx.structure);
    let n_cols = backend.shape(&weights[0]).0;
    let mut own = backend.zeros(structure.n_local, n_cols);
    backend.matmul_nt(dy, &weights[0], Mode::Assign, &mut own);
    let mut dmean = backend.zeros(structure.n_local, n_cols);
    backend.matmul_nt(dy, &weights[1], Mode::Assign, &mut dmean);
    backend.scale_rows(&structure.mean_factors, &mut dmean);

    backend.aggregate_transposed(&structure.own, None, &dmean, &mut own);
    let halo = structure.halo.iter().map(|block| {
        let mut gradient = backend.zeros(block.n_rows, n_cols);
        backend.aggregate_transposed(&block.edges, None, &dmean, &mut gradient);
        gradient
    });
    InputGrads { own, halo: halo.collect() }
}
