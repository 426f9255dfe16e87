//! Graph attention: `y_v = sum over u in N(v) and v of alpha_uv z_u + b`, `z = x W`.
//!
//! `alpha` is the softmax over u of `LeakyReLU(a_src . z_u + a_dst . z_v)`, slope 0.2, a head at a time.
//! Heads are concatenated; in the last layer each has all columns and they are averaged.
//! Tensors: `w` [in, heads * width], `a_src` [heads, width], `a_dst` [heads, width], `b` [1, out].

use sylvie_tensor::{Attention, AttentionGrads, AttentionRows, Backend, Mode};

use crate::input::{Context, Input, InputGrads};

/// How a layer's heads become its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heads {
    Concatenated,
    Averaged,
}

/// Rows of one owner: what was read, `z`, and the scores it gives.
struct Rows<B: Backend> {
    input: Input<B>,
    values: B::Matrix,
    source: B::Matrix,
}

impl<B: Backend> Rows<B> {
    fn new(ctx: Context<'_, B>, weights: &[B::Matrix], input: Input<B>, n_rows: usize) -> Self {
        let mut values = ctx.backend.zeros(n_rows, ctx.backend.shape(&weights[0]).1);
        input.matmul(ctx.backend, &weights[0], Mode::Assign, &mut values);
        let source = ctx.backend.attention_scores(&values, &weights[1]);
        Self { input, values, source }
    }
}

/// The rows read so far and the attention over them; finished, what the backward pass needs.
pub(crate) struct GatState<B: Backend> {
    own: Rows<B>,
    target: B::Matrix,
    halo: Vec<Rows<B>>,
    attention: Attention<B::Matrix>,
}

pub(crate) fn begin<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    own: Input<B>,
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
    partial: &mut GatState<B>,
) {
    let block = &ctx.structure.halo[block];
    let rows = Rows::new(ctx, weights, halo, block.n_rows);
    ctx.backend.attention_add_block(
        &block.edges,
        &rows.values,
        &rows.source,
        &partial.target,
        &mut partial.attention,
    );
    partial.halo.push(rows);
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

/// Gradients of one owner's `z` and source scores.
struct RowGrads<B: Backend> {
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
}

/// Assigns the weights' gradients; returns those of the rows read when `with_inputs`.
pub(crate) fn backward<B: Backend>(
    ctx: Context<'_, B>,
    weights: &[B::Matrix],
    heads: Heads,
    saved: &GatState<B>,
    dy: &B::Matrix,
    with_inputs: bool,
    grads: &mut [B::Matrix],
) -> Option<InputGrads<B>> {
    let (backend, structure) = (ctx.backend, ctx.structure);
    let n_heads = backend.shape(&weights[1]).0;
    backend.column_sums(dy, Mode::Assign, &mut grads[3]);
    let averaged = match heads {
        Heads::Concatenated => None,
        Heads::Averaged => Some(backend.head_mean_backward(dy, n_heads)),
    };
    let dy = averaged.as_ref().unwrap_or(dy);
    let dot = backend.head_dots(dy, &saved.attention.values, n_heads);
    let rows = AttentionRows { log_sum: &saved.attention.max, dot: &dot, dy };

    let mut dtarget = backend.zeros(structure.n_local, n_heads);
    let mut down = RowGrads::zeros(backend, &saved.own);
    let (values, source) = (&saved.own.values, &saved.own.source);
    backend.attention_self_backward(
        values,
        source,
        &saved.target,
        rows,
        AttentionGrads { values: &mut down.values, source: &mut down.source, target: &mut dtarget },
    );
    let mut all = vec![(&structure.own, &saved.own, down)];
    for (block, rows) in structure.halo.iter().zip(&saved.halo) {
        all.push((&block.edges, rows, RowGrads::zeros(backend, rows)));
    }
    for (edges, read, row_grads) in &mut all {
        let grads = AttentionGrads {
            values: &mut row_grads.values,
            source: &mut row_grads.source,
            target: &mut dtarget,
        };
        let target = &saved.target;
        backend.attention_block_backward(edges, &read.values, &read.source, target, rows, grads);
    }
    for tensor in [1, 2] {
        let (n_rows, n_cols) = backend.shape(&weights[tensor]);
        grads[tensor] = backend.zeros(n_rows, n_cols);
    }
    let own_values = &saved.own.values;
    let down = &mut all[0].2.values;
    backend.attention_scores_backward(own_values, &weights[2], &dtarget, down, &mut grads[2]);

    let mut inputs = Vec::new();
    for (index, (_, read, mut row_grads)) in all.into_iter().enumerate() {
        let (dvalues, dscores) = (&mut row_grads.values, &row_grads.source);
        let da = &mut grads[1];
        backend.attention_scores_backward(&read.values, &weights[1], dscores, dvalues, da);
        let mode = if index == 0 { Mode::Assign } else { Mode::Add };
        read.input.matmul_tn(backend, dvalues, mode, &mut grads[0]);
        if with_inputs {
            let mut dx = backend.zeros(backend.shape(dvalues).0, backend.shape(&weights[0]).0);
            backend.matmul_nt(dvalues, &weights[0], Mode::Assign, &mut dx);
            inputs.push(dx);
        }
    }
    with_inputs.then(|| {
        let halo = inputs.split_off(1);
        InputGrads { own: inputs.remove(0), halo }
    })
}
