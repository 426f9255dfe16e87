//! Attention over edges with a running softmax, block by block.
#![allow(unsafe_code)]

use sylvie_device::Arg;
use sylvie_kernels::{
    ATTENTION_ADD_BLOCK, ATTENTION_BEGIN, ATTENTION_COLUMNS_BACKWARD, ATTENTION_FINISH,
    ATTENTION_ROWS_BACKWARD, ATTENTION_SCORES, ATTENTION_SCORES_BACKWARD, ATTENTION_SELF_BACKWARD,
    ATTENTION_WEIGHT_SUMS, HEAD_DOTS, HEAD_MEAN, HEAD_MEAN_BACKWARD,
};
use sylvie_tensor::{Attention, AttentionGrads, AttentionRows, Mode};

use crate::matrix::{assert_same_shape, assert_shape};
use crate::row_wise::{in_passes, launch};
use crate::{CudaAdjacency, CudaMatrix, count};

/// Columns of one head.
///
/// # Panics
/// Unless the heads share the columns evenly, at least one each.
fn head_width(x: &CudaMatrix, n_heads: usize) -> usize {
    let n_cols = x.n_cols();
    let is_shared = n_heads > 0 && n_cols >= n_heads && n_cols.is_multiple_of(n_heads);
    assert!(is_shared, "{n_cols} columns for {n_heads} heads");
    n_cols / n_heads
}

/// The sizes of a matrix of heads as a kernel's last three arguments.
fn sizes(n_rows: usize, n_heads: usize, width: usize) -> [Arg<'static>; 3] {
    [n_rows, n_heads, width].map(|n| Arg::U32(count(n)))
}

pub(crate) fn scores(x: &CudaMatrix, weights: &CudaMatrix) -> CudaMatrix {
    let ((n_heads, width), n_rows) = (weights.shape(), x.n_rows());
    assert_eq!(x.n_cols(), n_heads * width, "columns of heads");
    let device = x.memory.device();
    let mut out = CudaMatrix::new(device, n_rows, n_heads);
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let mut args = [
        Arg::Read(&x.memory),
        Arg::Read(&weights.memory),
        Arg::Write(&mut out.memory),
        n_rows_arg,
        n_heads_arg,
        width_arg,
    ];
    // SAFETY: shapes fit (asserted).
    unsafe { launch(device, &ATTENTION_SCORES, (n_rows * n_heads, width), &mut args) };
    out
}

pub(crate) fn scores_backward(
    (x, weights): (&CudaMatrix, &CudaMatrix),
    dscores: &CudaMatrix,
    dx: &mut CudaMatrix,
    dweights: &mut CudaMatrix,
) {
    let ((n_heads, width), n_rows) = (weights.shape(), x.n_rows());
    assert_eq!(x.n_cols(), n_heads * width, "columns of heads");
    assert_shape(dscores, (n_rows, n_heads), "scores' gradients");
    assert_shape(dx, (n_rows, n_heads * width), "values' gradients");
    assert_shape(dweights, (n_heads, width), "score weights' gradients");
    let device = x.memory.device();
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let mut args = [
        Arg::Read(&weights.memory),
        Arg::Read(&dscores.memory),
        Arg::Write(&mut dx.memory),
        n_rows_arg,
        n_heads_arg,
        width_arg,
    ];
    // SAFETY: shapes fit (asserted).
    unsafe { launch(device, &ATTENTION_SCORES_BACKWARD, (n_rows * n_heads, width), &mut args) };
    in_passes(n_rows, Mode::Add, dweights, |n_rows, add, target| {
        let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
        let mut args = [
            Arg::Read(&x.memory),
            Arg::Read(&dscores.memory),
            Arg::Write(&mut target.memory),
            n_rows_arg,
            n_heads_arg,
            width_arg,
            Arg::U32(add),
        ];
        // SAFETY: shapes fit, and the target has a row of all heads for each tile.
        unsafe { launch(device, &ATTENTION_WEIGHT_SUMS, (n_rows, n_heads * width), &mut args) };
    });
}

pub(crate) fn begin(
    values: &CudaMatrix,
    source: &CudaMatrix,
    target: &CudaMatrix,
) -> Attention<CudaMatrix> {
    let (n_rows, n_heads) = (values.n_rows(), source.n_cols());
    let width = head_width(values, n_heads);
    assert_shape(source, (n_rows, n_heads), "source scores");
    assert_shape(target, (n_rows, n_heads), "target scores");
    let device = values.memory.device();
    let mut max = CudaMatrix::new(device, n_rows, n_heads);
    let mut sum = CudaMatrix::new(device, n_rows, n_heads);
    let mut sums = CudaMatrix::new(device, n_rows, n_heads * width);
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let mut args = [
        Arg::Read(&values.memory),
        Arg::Read(&source.memory),
        Arg::Read(&target.memory),
        Arg::Write(&mut max.memory),
        Arg::Write(&mut sum.memory),
        Arg::Write(&mut sums.memory),
        n_rows_arg,
        n_heads_arg,
        width_arg,
    ];
    // SAFETY: shapes fit (asserted); what is written was just made of that size.
    unsafe { launch(device, &ATTENTION_BEGIN, (n_rows * n_heads, width), &mut args) };
    Attention { max, sum, values: sums }
}

pub(crate) fn add_block(
    block: &CudaAdjacency,
    values: &CudaMatrix,
    source: &CudaMatrix,
    target: &CudaMatrix,
    state: &mut Attention<CudaMatrix>,
) {
    let (n_heads, n_local) = (source.n_cols(), target.n_rows());
    let width = head_width(values, n_heads);
    assert_shape(values, (block.n_columns, n_heads * width), "values of a block");
    assert_shape(source, (block.n_columns, n_heads), "source scores");
    assert_shape(target, (n_local, n_heads), "target scores");
    assert_shape(&state.max, (n_local, n_heads), "largest scores");
    assert_shape(&state.sum, (n_local, n_heads), "sums of exponentials");
    assert_shape(&state.values, (n_local, n_heads * width), "values summed");
    block.assert_rows_below(n_local);
    let n_positions = block.n_positions;
    let [n_positions_arg, n_heads_arg, width_arg] = sizes(n_positions, n_heads, width);
    let mut args = [
        Arg::Read(&block.indptr),
        Arg::Read(&block.columns),
        Arg::Read(&block.rows),
        Arg::Read(&values.memory),
        Arg::Read(&source.memory),
        Arg::Read(&target.memory),
        Arg::Write(&mut state.max.memory),
        Arg::Write(&mut state.sum.memory),
        Arg::Write(&mut state.values.memory),
        n_positions_arg,
        n_heads_arg,
        width_arg,
    ];
    let device = values.memory.device();
    // SAFETY: shapes fit, and the block's rows and columns lie inside of them (asserted).
    unsafe { launch(device, &ATTENTION_ADD_BLOCK, (n_positions * n_heads, width), &mut args) };
}

pub(crate) fn finish(state: &mut Attention<CudaMatrix>) {
    let (n_rows, n_heads) = state.max.shape();
    let width = head_width(&state.values, n_heads);
    assert_shape(&state.sum, (n_rows, n_heads), "sums of exponentials");
    assert_shape(&state.values, (n_rows, n_heads * width), "values summed");
    let device = state.sum.memory.device().clone();
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let mut args = [
        Arg::Write(&mut state.max.memory),
        Arg::Read(&state.sum.memory),
        Arg::Write(&mut state.values.memory),
        n_rows_arg,
        n_heads_arg,
        width_arg,
    ];
    // SAFETY: shapes fit (asserted).
    unsafe { launch(&device, &ATTENTION_FINISH, (n_rows * n_heads, width), &mut args) };
}

fn assert_backward_shapes(
    values: &CudaMatrix,
    (source, target): (&CudaMatrix, &CudaMatrix),
    rows: AttentionRows<'_, CudaMatrix>,
    grads: &AttentionGrads<'_, CudaMatrix>,
) {
    let (n_cols, n_heads, n_local) = (values.n_cols(), source.n_cols(), target.n_rows());
    assert_shape(source, (values.n_rows(), n_heads), "source scores");
    assert_shape(target, (n_local, n_heads), "target scores");
    assert_shape(rows.log_sum, (n_local, n_heads), "logs of sums");
    assert_shape(rows.dot, (n_local, n_heads), "head dots");
    assert_shape(rows.dy, (n_local, n_cols), "output gradients");
    assert_same_shape(grads.values, values);
    assert_same_shape(grads.source, source);
    assert_same_shape(grads.target, target);
}

pub(crate) fn self_backward(
    values: &CudaMatrix,
    (source, target): (&CudaMatrix, &CudaMatrix),
    rows: AttentionRows<'_, CudaMatrix>,
    grads: AttentionGrads<'_, CudaMatrix>,
) {
    let (n_rows, n_heads) = source.shape();
    let width = head_width(values, n_heads);
    assert_backward_shapes(values, (source, target), rows, &grads);
    assert_eq!(values.n_rows(), target.n_rows(), "rows and their own values");
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let mut args = [
        Arg::Read(&values.memory),
        Arg::Read(&source.memory),
        Arg::Read(&target.memory),
        Arg::Read(&rows.log_sum.memory),
        Arg::Read(&rows.dot.memory),
        Arg::Read(&rows.dy.memory),
        Arg::Write(&mut grads.values.memory),
        Arg::Write(&mut grads.source.memory),
        Arg::Write(&mut grads.target.memory),
        n_rows_arg,
        n_heads_arg,
        width_arg,
    ];
    let device = values.memory.device();
    // SAFETY: shapes fit (asserted).
    unsafe { launch(device, &ATTENTION_SELF_BACKWARD, (n_rows * n_heads, width), &mut args) };
}

pub(crate) fn block_backward(
    block: &CudaAdjacency,
    values: &CudaMatrix,
    (source, target): (&CudaMatrix, &CudaMatrix),
    rows: AttentionRows<'_, CudaMatrix>,
    grads: AttentionGrads<'_, CudaMatrix>,
) {
    let n_heads = source.n_cols();
    let width = head_width(values, n_heads);
    assert_backward_shapes(values, (source, target), rows, &grads);
    assert_eq!(values.n_rows(), block.n_columns, "values and columns of a block");
    block.assert_rows_below(target.n_rows());
    let device = values.memory.device();
    // Each edge's score gradient is kept, so that the target scores' gradients are sums over rows.
    let mut dscores = CudaMatrix::new(device, block.n_edges, n_heads);
    let n_columns = block.n_columns;
    let [n_columns_arg, n_heads_arg, width_arg] = sizes(n_columns, n_heads, width);
    let mut args = [
        Arg::Read(&block.column_indptr),
        Arg::Read(&block.readers),
        Arg::Read(&values.memory),
        Arg::Read(&source.memory),
        Arg::Read(&target.memory),
        Arg::Read(&rows.log_sum.memory),
        Arg::Read(&rows.dot.memory),
        Arg::Read(&rows.dy.memory),
        Arg::Write(&mut grads.values.memory),
        Arg::Write(&mut grads.source.memory),
        Arg::Write(&mut dscores.memory),
        n_columns_arg,
        n_heads_arg,
        width_arg,
    ];
    // SAFETY: shapes fit, and the block's rows and columns lie inside of them (asserted); there is a score
    // gradient for each edge and head.
    unsafe {
        launch(device, &ATTENTION_COLUMNS_BACKWARD, (n_columns * n_heads, width), &mut args);
    }
    let mut args = [
        Arg::Read(&block.indptr),
        Arg::Read(&block.to_transposed),
        Arg::Read(&block.rows),
        Arg::Read(&dscores.memory),
        Arg::Write(&mut grads.target.memory),
        Arg::U32(count(block.n_positions)),
        Arg::U32(count(n_heads)),
    ];
    // SAFETY: as above; an edge's place is below the number of edges.
    unsafe { launch(device, &ATTENTION_ROWS_BACKWARD, (block.n_positions, n_heads), &mut args) };
}

pub(crate) fn head_dots(x: &CudaMatrix, y: &CudaMatrix, n_heads: usize) -> CudaMatrix {
    assert_same_shape(x, y);
    let (width, n_rows) = (head_width(x, n_heads), x.n_rows());
    let device = x.memory.device();
    let mut out = CudaMatrix::new(device, n_rows, n_heads);
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let mut args = [
        Arg::Read(&x.memory),
        Arg::Read(&y.memory),
        Arg::Write(&mut out.memory),
        n_rows_arg,
        n_heads_arg,
        width_arg,
    ];
    // SAFETY: shapes alike (asserted).
    unsafe { launch(device, &HEAD_DOTS, (n_rows * n_heads, width), &mut args) };
    out
}

pub(crate) fn head_mean(x: &CudaMatrix, n_heads: usize) -> CudaMatrix {
    let (width, n_rows) = (head_width(x, n_heads), x.n_rows());
    let device = x.memory.device();
    let mut out = CudaMatrix::new(device, n_rows, width);
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let (x_arg, out_arg) = (Arg::Read(&x.memory), Arg::Write(&mut out.memory));
    let mut args = [x_arg, out_arg, n_rows_arg, n_heads_arg, width_arg];
    // SAFETY: what is written was just made of that size.
    unsafe { launch(device, &HEAD_MEAN, (n_rows, width), &mut args) };
    out
}

pub(crate) fn head_mean_backward(dy: &CudaMatrix, n_heads: usize) -> CudaMatrix {
    let (n_rows, width) = dy.shape();
    let device = dy.memory.device();
    let mut out = CudaMatrix::new(device, n_rows, n_heads * width);
    let [n_rows_arg, n_heads_arg, width_arg] = sizes(n_rows, n_heads, width);
    let (dy_arg, out_arg) = (Arg::Read(&dy.memory), Arg::Write(&mut out.memory));
    let mut args = [dy_arg, out_arg, n_rows_arg, n_heads_arg, width_arg];
    // SAFETY: what is written was just made of that size.
    unsafe { launch(device, &HEAD_MEAN_BACKWARD, (n_rows, width), &mut args) };
    out
}
