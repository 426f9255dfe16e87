//! Graph convolution: `y = D^-1/2 (A + I) D^-1/2 x W + b`, D counting the edge to oneself.
//!
//! Tensors: `w` [in, out], `b` [1, out].

use sylvie_tensor::{Backend, Mode};

use crate::factors::ColumnFactors;
use crate::input::{Context, Input, LayerRows};
use crate::neighbours::{self, PartialSum, SavedSum, SumBackward, Weighting};

pub(crate) const WEIGHTING: Weighting = Weighting::Symmetric;

/// The sum over the rows read so far.
pub(crate) struct GcnPartial<B: Backend> {
    sum: PartialSum<B>,
    y: Option<B::Matrix>,
}

fn tensors<M>(weights: &[M]) -> (&M, &M) {
    let [w, b, ..] = weights else { panic!("{} tensors for a GCN layer", weights.len()) };
    (w, b)
}

pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: &LayerRows<B>,
) -> GcnPartial<B> {
    let (sum, y) = neighbours::begin(ctx, WEIGHTING, tensors(weights).0, own);
    GcnPartial { sum, y }
}

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    halo: &Input<B>,
    factors: Option<&ColumnFactors<B>>,
    partial: &mut GcnPartial<B>,
) {
    neighbours::add_block(ctx, WEIGHTING, block, halo, factors, &mut partial.sum);
}

pub(crate) fn finish<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    partial: GcnPartial<B>,
) -> (B::Matrix, SavedSum<B>) {
    neighbours::finish(ctx, WEIGHTING, tensors(weights), partial.y, partial.sum)
}

/// `aggregate W + b`.
pub(crate) fn update<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    aggregate: LayerRows<B>,
) -> (B::Matrix, SavedSum<B>) {
    neighbours::from_rows(ctx, tensors(weights), None, aggregate)
}

pub(crate) fn begin_backward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    saved: SavedSum<B>,
    dy: &B::Matrix,
    is_first: bool,
) -> SumBackward<B> {
    neighbours::begin_backward(ctx, WEIGHTING, tensors(weights).0, saved, dy, is_first)
}

/// The gradient of a block's rows.
pub(crate) fn block_gradient<B: Backend>(
    ctx: Context<'_, B>,
    block: usize,
    factors: Option<&ColumnFactors<B>>,
    state: &SumBackward<B>,
) -> B::Matrix {
    neighbours::block_gradient(ctx, WEIGHTING, block, factors, state)
}

/// The gradient of the own rows.
pub(crate) fn own_gradient<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    state: &SumBackward<B>,
) -> B::Matrix {
    neighbours::own_gradient(ctx, WEIGHTING, tensors(weights).0, state)
}

/// Assigns the gradients of `w` and `b`.
pub(crate) fn weight_gradients<B: Backend>(
    ctx: Context<'_, B>,
    state: &SumBackward<B>,
    dy: &B::Matrix,
    grads: &mut [B::Matrix],
) {
    neighbours::weight_gradient(ctx, state, None, dy, &mut grads[0]);
    ctx.backend.column_sums(dy, Mode::Assign, &mut grads[1]);
}
