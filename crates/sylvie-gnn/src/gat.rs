//! Graph attention: `y_v = sum over u in N(v) and v of alpha_uv z_u + b`, `z = x W`.
//!
//! `alpha` is the softmax over u of `LeakyReLU(a_src . z_u + a_dst . z_v)`, slope 0.2, a head at a time.
//! Heads are concatenated; in the last layer each has all columns and they are averaged.
//! Tensors: `w` [in, heads * width], `a_src` [heads, width], `a_dst` [heads, width], `b` [1, out].

use sylvie_tensor::{Attention, AttentionGrads, AttentionRows, Backend, Mode};

use crate::factors::ColumnFactors;
use crate::input::{Context, Input, KeptRows, LayerRows};
use crate::network::BlockRead;

/// How a layer's heads become its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heads {
    Concatenated,
    Averaged,
}

/// Rows of one owner: what was read, `z`, and the scores it gives.
struct Rows<B: Backend> {
    input: KeptRows<B>,
    values: B::Matrix,
    source: B::Matrix,
}

impl<B: Backend> Rows<B> {
    fn new(ctx: Context<'_, B>, weights: &[B::Matrix], input: LayerRows<B>, n_rows: usize) -> Self {
        let n_cols = ctx.backend.shape(&weights[0]).1;
        let mut values = ctx.backend.matrix_to_assign(n_rows, n_cols);
        input.read.matmul(ctx.backend, &weights[0], Mode::Assign, &mut values);
        let source = ctx.backend.attention_scores(&values, &weights[1]);
        Self { input: input.kept, values, source }
    }

    /// The rows of a block; those of factor 0 score minus infinity.
    fn halo(
        ctx: Context<'_, B>,
        weights: &[B::Matrix],
        block: usize,
        input: Input<B>,
        factors: Option<&ColumnFactors<B>>,
    ) -> Self {
        let input = LayerRows::as_they_are(input);
        let mut rows = Self::new(ctx, weights, input, ctx.structure.halo[block].n_rows);
        if let Some(factors) = factors {
            factors.scores().mask(ctx.backend, &mut rows.source);
        }
        rows
    }
}

/// The rows read so far and the attention over them; finished, what the backward pass needs.
pub(crate) struct GatState<B: Backend> {
    own: Rows<B>,
    target: B::Matrix,
    /// An entry a block added; empty where halo rows are not kept.
    halo: Vec<Option<Rows<B>>>,
    attention: Attention<B::Matrix>,
}

pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: LayerRows<B>,
) -> GatState<B> {
    let own = Rows::new(ctx, weights, own, ctx.structure.n_local);
    let target = ctx.backend.attention_scores(&own.values, &weights[2]);
    let mut attention = ctx.backend.attention_begin(&own.values, &own.source, &target);
    let block = &ctx.structure.own;
    ctx.backend.attention_add_block(block, &own.values, &own.source, &target, &mut attention);
    GatState { own, target, halo: Vec::new(), attention }
}

pub(crate) fn add_block<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    block: usize,
    halo: Input<B>,
    factors: Option<&ColumnFactors<B>>,
    partial: &mut GatState<B>,
) {
    let rows = Rows::halo(ctx, weights, block, halo, factors);
    let attention = &mut partial.attention;
    if let Some(factors) = factors {
        factors.scores().lower(ctx.backend, &mut attention.max);
    }
    let edges = &ctx.structure.halo[block].edges;
    let (values, source, target) = (&rows.values, &rows.source, &partial.target);
    ctx.backend.attention_add_block(edges, values, source, target, attention);
    if let Some(factors) = factors {
        factors.scores().raise(ctx.backend, &mut attention.max);
    }
    partial.halo.push(ctx.keeps_halo.then_some(rows));
}

pub(crate) fn finish<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    heads: Heads,
    mut partial: GatState<B>,
) -> (B::Matrix, GatState<B>) {
    ctx.backend.attention_finish(&mut partial.attention);
    let n_heads = ctx.backend.shape(&weights[1]).0;
    let mut y = match heads {
        Heads::Concatenated => ctx.backend.copy(&partial.attention.values),
        Heads::Averaged => ctx.backend.head_mean(&partial.attention.values, n_heads),
    };
    ctx.backend.add_bias(&weights[3], &mut y);
    (y, partial)
}

/// A backward pass that has gone through some of the blocks.
pub(crate) struct GatBackward<B: Backend> {
    saved: GatState<B>,
    /// Gradient of the heads' output, where that is not the layer's; all may share one head's.
    averaged: Option<B::Matrix>,
    /// `dy . output` of each head.
    dot: B::Matrix,
    /// Gradient of the target scores, so far.
    dtarget: B::Matrix,
}

pub(crate) fn begin_backward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    heads: Heads,
    saved: GatState<B>,
    dy: &B::Matrix,
) -> GatBackward<B> {
    let backend = ctx.backend;
    let n_heads = backend.shape(&weights[1]).0;
    let averaged = match heads {
        Heads::Concatenated => None,
        Heads::Averaged => Some(backend.head_mean_backward(dy, n_heads)),
    };
    let per_head = averaged.as_ref().unwrap_or(dy);
    let dot = backend.head_dots(per_head, &saved.attention.values, n_heads);
    let dtarget = backend.zeros(ctx.structure.n_local, n_heads);
    GatBackward { saved, averaged, dot, dtarget }
}

/// Gradients of one owner's `z` and source scores.
pub(crate) struct RowGrads<B: Backend> {
    values: B::Matrix,
    source: B::Matrix,
}

impl<B: Backend> RowGrads<B> {
    fn zeros(backend: &B, rows: &Rows<B>) -> Self {
        let zeros = |x: &B::Matrix| {
            let (n_rows, n_cols) = backend.shape(x);
            backend.zeros(n_rows, n_cols)
        };
        Self { values: zeros(&rows.values), source: zeros(&rows.source) }
    }

    /// These gradients and that of the target scores, to add edges to.
    fn with_target<'a>(&'a mut self, target: &'a mut B::Matrix) -> AttentionGrads<'a, B::Matrix> {
        AttentionGrads { values: &mut self.values, source: &mut self.source, target }
    }

    /// Adds the source scores' share to the gradients of `z`, and what these rows bring to the
    /// gradients of `w` and `a_src`.
    fn add_weight_gradients(
        &mut self,
        ctx: Context<'_, B>,
        weights: &[B::Matrix],
        read: &Rows<B>,
        grads: &mut [B::Matrix],
    ) {
        let (backend, dvalues, dscores) = (ctx.backend, &mut self.values, &self.source);
        let da = &mut grads[1];
        backend.attention_scores_backward(&read.values, &weights[1], dscores, dvalues, da);
        read.input.read_again(ctx).matmul_tn(backend, dvalues, Mode::Add, &mut grads[0]);
    }

    /// The gradient of the rows read.
    pub(crate) fn of_input(&self, backend: &B, weights: &[B::Matrix]) -> B::Matrix {
        let (n_rows, width) = (backend.shape(&self.values).0, backend.shape(&weights[0]).0);
        let mut dx = backend.matrix_to_assign(n_rows, width);
        backend.matmul_nt(&self.values, &weights[0], Mode::Assign, &mut dx);
        dx
    }
}

/// The rows of a block as the forward pass met them, read again where it kept nothing.
fn take_halo<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    read: BlockRead<'_, B>,
    saved: &mut GatState<B>,
) -> Rows<B> {
    let block = read.block;
    if let Some(rows) = saved.halo[block].take() {
        return rows;
    }
    let Some(halo) = read.halo else {
        panic!("block {block} goes back without its halo rows, which were not kept")
    };
    let halo = halo.dropped(ctx.backend, ctx.row_dropout(), &ctx.structure.halo[block].keys);
    Rows::halo(ctx, weights, block, halo, read.factors)
}

/// Adds what a block's rows bring to the gradients of weights; returns the gradients of those rows.
pub(crate) fn block_backward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    read: BlockRead<'_, B>,
    dy: &B::Matrix,
    state: &mut GatBackward<B>,
    grads: &mut [B::Matrix],
) -> RowGrads<B> {
    let backend = ctx.backend;
    let halo = take_halo(ctx, weights, read, &mut state.saved);
    let saved = &state.saved;
    let mut down = RowGrads::zeros(backend, &halo);
    let log_sum = &saved.attention.max;
    let lowered = read.factors.and_then(|factors| factors.scores().lowered(backend, log_sum));
    let rows = AttentionRows {
        log_sum: lowered.as_ref().unwrap_or(log_sum),
        dot: &state.dot,
        dy: state.averaged.as_ref().unwrap_or(dy),
    };
    backend.attention_block_backward(
        &ctx.structure.halo[read.block].edges,
        &halo.values,
        &halo.source,
        &saved.target,
        rows,
        down.with_target(&mut state.dtarget),
    );
    down.add_weight_gradients(ctx, weights, &halo, grads);
    down
}

/// Adds what the own rows bring to the gradients of weights, when all blocks have gone back; returns
/// the gradients of those rows.
pub(crate) fn finish_backward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    dy: &B::Matrix,
    mut state: GatBackward<B>,
    grads: &mut [B::Matrix],
) -> RowGrads<B> {
    let (backend, saved) = (ctx.backend, &state.saved);
    backend.column_sums(dy, Mode::Assign, &mut grads[3]);
    let mut down = RowGrads::zeros(backend, &saved.own);
    let rows = AttentionRows {
        log_sum: &saved.attention.max,
        dot: &state.dot,
        dy: state.averaged.as_ref().unwrap_or(dy),
    };
    let (values, source, target) = (&saved.own.values, &saved.own.source, &saved.target);
    let down_grads = down.with_target(&mut state.dtarget);
    backend.attention_self_backward(values, source, target, rows, down_grads);
    let (edges, down_grads) = (&ctx.structure.own, down.with_target(&mut state.dtarget));
    backend.attention_block_backward(edges, values, source, target, rows, down_grads);

    let dvalues = &mut down.values;
    backend.attention_scores_backward(values, &weights[2], &state.dtarget, dvalues, &mut grads[2]);
    down.add_weight_gradients(ctx, weights, &saved.own, grads);
    down
}
