//! A dense layer: `y = x W + b`. Tensors: `w` [in, out], `b` [1, out].

use sylvie_tensor::{Backend, Mode};

use crate::input::{Context, KeptRows, LayerRows};

/// The rows read.
pub(crate) struct LinearSaved<B: Backend> {
    own: KeptRows<B>,
}

pub(crate) fn forward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: LayerRows<B>,
) -> (B::Matrix, LinearSaved<B>) {
    let [w, b, ..] = weights else { panic!("{} tensors for a linear layer", weights.len()) };
    let mut y = ctx.backend.matrix_to_assign(ctx.structure.n_local, ctx.backend.shape(w).1);
    own.read.matmul_bias(ctx.backend, w, Mode::Assign, b, &mut y);
    (y, LinearSaved { own: own.kept })
}

/// Assigns the gradients of `w` and `b`.
pub(crate) fn weight_gradients<B: Backend>(
    ctx: Context<'_, B>,
    saved: &LinearSaved<B>,
    dy: &B::Matrix,
    grads: &mut [B::Matrix],
) {
    saved.own.read_again(ctx).matmul_tn(ctx.backend, dy, Mode::Assign, &mut grads[0]);
    ctx.backend.column_sums(dy, Mode::Assign, &mut grads[1]);
}

/// The gradient of the rows read.
pub(crate) fn own_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
) -> B::Matrix {
    let n_cols = ctx.backend.shape(&weights[0]).0;
    let mut dx = ctx.backend.matrix_to_assign(ctx.structure.n_local, n_cols);
    ctx.backend.matmul_nt(dy, &weights[0], Mode::Assign, &mut dx);
    dx
}
