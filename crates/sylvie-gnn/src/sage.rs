//! GraphSAGE with mean aggregation: `y = x W_self + mean over N(v) of x W_neigh + b`.
//!
//! Tensors: `w_self` [in, out], `w_neigh` [in, out], `b` [1, out]. A node without neighbours has mean 0.

use sylvie_tensor::{Backend, Mode};

use crate::factors::ColumnFactors;
use crate::input::{Context, Input, KeptRows, LayerRows};
use crate::neighbours::{self, PartialSum, SavedSum, SumBackward, Weighting};

pub(crate) const WEIGHTING: Weighting = Weighting::Mean;

/// Own rows, what is there of the output, and the sum over the neighbours read so far.
pub(crate) struct SagePartial<B: Backend> {
    own: KeptRows<B>,
    y: B::Matrix,
    sum: PartialSum<B>,
}

/// Own rows and neighbours' means.
pub(crate) struct SageSaved<B: Backend> {
    own: KeptRows<B>,
    mean: SavedSum<B>,
}

struct Tensors<'a, M> {
    w_self: &'a M,
    w_neigh: &'a M,
    b: &'a M,
}

fn tensors<M>(weights: &[M]) -> Tensors<'_, M> {
    let [w_self, w_neigh, b, ..] = weights else {
        panic!("{} tensors for a SAGE layer", weights.len())
    };
    Tensors { w_self, w_neigh, b }
}

/// Adds `own W_self` to `y`, or assigns it where there is none yet.
fn own_product<B: Backend>(
    ctx: Context<'_, B>,
    w_self: &B::Matrix,
    own: &Input<B>,
    y: Option<B::Matrix>,
) -> B::Matrix {
    let mode = if y.is_some() { Mode::Add } else { Mode::Assign };
    let n_cols = ctx.backend.shape(w_self).1;
    let mut y = y.unwrap_or_else(|| ctx.backend.matrix_to_assign(ctx.structure.n_local, n_cols));
    own.matmul(ctx.backend, w_self, mode, &mut y);
    y
}

pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: &LayerRows<B>,
) -> SagePartial<B> {
    let Tensors { w_self, w_neigh, .. } = tensors(weights);
    let (sum, y) = neighbours::begin(ctx, WEIGHTING, w_neigh, own);
    let y = own_product(ctx, w_self, &own.read, y);
    SagePartial { own: own.kept.clone(), y, sum }
}

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &Input<B>,
    factors: Option<&ColumnFactors<B>>,
    partial: &mut SagePartial<B>,
) {
    neighbours::add_block(ctx, WEIGHTING, block, halo, factors, &mut partial.sum);
}

/// `own W_self + mean W_neigh + b`.
pub(crate) fn finish<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    partial: SagePartial<B>,
) -> (B::Matrix, SageSaved<B>) {
    let SagePartial { own, y, sum } = partial;
    let Tensors { w_neigh, b, .. } = tensors(weights);
    let (y, mean) = neighbours::finish(ctx, WEIGHTING, (w_neigh, b), Some(y), sum);
    (y, SageSaved { own, mean })
}

/// The layer from own rows and means that were computed before.
pub(crate) fn from_mean<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: LayerRows<B>,
    mean: LayerRows<B>,
) -> (B::Matrix, SageSaved<B>) {
    let Tensors { w_self, w_neigh, b } = tensors(weights);
    let y = own_product(ctx, w_self, &own.read, None);
    let (y, mean) = neighbours::from_rows(ctx, (w_neigh, b), Some(y), mean);
    (y, SageSaved { own: own.kept, mean })
}

/// A backward pass that has gone through some of the blocks.
pub(crate) struct SageBackward<B: Backend> {
    own: KeptRows<B>,
    sum: SumBackward<B>,
}

pub(crate) fn begin_backward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    saved: SageSaved<B>,
    dy: &B::Matrix,
    is_first: bool,
) -> SageBackward<B> {
    let (w_neigh, SageSaved { own, mean }) = (tensors(weights).w_neigh, saved);
    let sum = neighbours::begin_backward(ctx, WEIGHTING, w_neigh, mean, dy, is_first);
    SageBackward { own, sum }
}

/// The gradient of a block's rows.
pub(crate) fn block_gradient<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    factors: Option<&ColumnFactors<B>>,
    state: &SageBackward<B>,
) -> B::Matrix {
    neighbours::block_gradient(ctx, WEIGHTING, block, factors, &state.sum)
}

/// The gradient of the own rows.
pub(crate) fn own_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
    state: &SageBackward<B>,
) -> B::Matrix {
    let Tensors { w_self, w_neigh, .. } = tensors(weights);
    let mut own = neighbours::own_gradient(ctx, WEIGHTING, w_neigh, &state.sum);
    ctx.backend.matmul_nt(dy, w_self, Mode::Add, &mut own);
    own
}

/// Assigns the gradients of `w_self`, `w_neigh` and `b`.
pub(crate) fn weight_gradients<B: Backend>(
    ctx: Context<'_, B>,
    state: &SageBackward<B>,
    dy: &B::Matrix,
    grads: &mut [B::Matrix],
) {
    let own = state.own.read_again(ctx);
    own.matmul_tn(ctx.backend, dy, Mode::Assign, &mut grads[0]);
    neighbours::weight_gradient(ctx, &state.sum, Some(own), dy, &mut grads[1]);
    ctx.backend.column_sums(dy, Mode::Assign, &mut grads[2]);
}
