//! Attention over edges with a running softmax, block by block.

use sylvie_graph::DenseMatrix;

use super::aggregate::{CHUNK_ROWS, CpuAdjacency};
use super::kernels::{add_scaled, dot};
use super::threads::Threads;
use super::{assert_same_shape, zeros};
use crate::backend::{Attention, AttentionGrads, AttentionRows};

/// Slope of LeakyReLU for negative scores.
const NEGATIVE_SLOPE: f32 = 0.2;

fn leaky(score: f32) -> f32 {
    if score > 0.0 { score } else { NEGATIVE_SLOPE * score }
}

fn leaky_slope(score: f32) -> f32 {
    if score > 0.0 { 1.0 } else { NEGATIVE_SLOPE }
}

/// Whether a column with this source score is among those that the softmax is over.
fn takes_part(source: f32) -> bool {
    source != f32::NEG_INFINITY
}

/// Columns of one head.
///
/// # Panics
/// Unless the heads share the columns evenly, at least one each.
fn head_width(x: &DenseMatrix, n_heads: usize) -> usize {
    let n_cols = x.n_cols();
    let is_shared = n_heads > 0 && n_cols >= n_heads && n_cols.is_multiple_of(n_heads);
    assert!(is_shared, "{n_cols} columns for {n_heads} heads");
    n_cols / n_heads
}

fn assert_shape(x: &DenseMatrix, expected: (usize, usize), what: &str) {
    assert_eq!((x.n_rows(), x.n_cols()), expected, "shape of {what}");
}

fn assert_backward_shapes(
    values: &DenseMatrix,
    (source, target): (&DenseMatrix, &DenseMatrix),
    rows: AttentionRows<'_, DenseMatrix>,
    grads: &AttentionGrads<'_, DenseMatrix>,
) {
    let (n_cols, n_heads) = (values.n_cols(), source.n_cols());
    assert_shape(source, (values.n_rows(), n_heads), "source scores");
    assert_shape(target, (target.n_rows(), n_heads), "target scores");
    assert_shape(rows.log_sum, (target.n_rows(), n_heads), "logs of sums");
    assert_shape(rows.dot, (target.n_rows(), n_heads), "head dots");
    assert_shape(rows.dy, (target.n_rows(), n_cols), "output gradients");
    assert_same_shape(grads.values, values);
    assert_same_shape(grads.source, source);
    assert_same_shape(grads.target, target);
}

pub(super) fn scores(threads: &Threads, x: &DenseMatrix, weights: &DenseMatrix) -> DenseMatrix {
    let (n_heads, width) = (weights.n_rows(), weights.n_cols());
    assert_eq!(x.n_cols(), n_heads * width, "columns of heads");
    let mut out = zeros(x.n_rows(), n_heads);
    threads.row_chunks(out.values_mut(), n_heads, CHUNK_ROWS, |first, rows| {
        for (row, scores) in rows.chunks_exact_mut(n_heads).enumerate() {
            let values = x.row(first + row);
            for (head, score) in scores.iter_mut().enumerate() {
                *score = dot(&values[head * width..][..width], weights.row(head));
            }
        }
    });
    out
}

pub(super) fn scores_backward(
    threads: &Threads,
    (x, weights): (&DenseMatrix, &DenseMatrix),
    dscores: &DenseMatrix,
    dx: &mut DenseMatrix,
    dweights: &mut DenseMatrix,
) {
    let (n_heads, width) = (weights.n_rows(), weights.n_cols());
    let n_rows = x.n_rows();
    assert_eq!(x.n_cols(), n_heads * width, "columns of heads");
    assert_shape(dscores, (n_rows, n_heads), "scores' gradients");
    assert_shape(dx, (n_rows, n_heads * width), "values' gradients");
    assert_shape(dweights, (n_heads, width), "score weights' gradients");
    threads.row_chunks(dx.values_mut(), n_heads * width, CHUNK_ROWS, |first, rows| {
        for (row, dx_row) in rows.chunks_exact_mut(n_heads * width).enumerate() {
            for (head, &dscore) in dscores.row(first + row).iter().enumerate() {
                add_scaled(dscore, weights.row(head), &mut dx_row[head * width..][..width]);
            }
        }
    });
    let chunk_rows = 4096;
    let partials = threads.map(n_rows.div_ceil(chunk_rows), |chunk| {
        let mut partial = vec![0.0; n_heads * width];
        for row in chunk * chunk_rows..((chunk + 1) * chunk_rows).min(n_rows) {
            for (head, &dscore) in dscores.row(row).iter().enumerate() {
                let values = &x.row(row)[head * width..][..width];
                add_scaled(dscore, values, &mut partial[head * width..][..width]);
            }
        }
        partial
    });
    for partial in partials {
        add_scaled(1.0, &partial, dweights.values_mut());
    }
}

pub(super) fn begin(
    values: &DenseMatrix,
    (source, target): (&DenseMatrix, &DenseMatrix),
) -> Attention<DenseMatrix> {
    head_width(values, source.n_cols());
    let shape = (values.n_rows(), source.n_cols());
    assert_shape(source, shape, "source scores");
    assert_shape(target, shape, "target scores");
    let mut max = zeros(source.n_rows(), source.n_cols());
    let mut sum = max.clone();
    let mut sums = values.clone();
    let width = values.n_cols() / source.n_cols();
    let pairs = source.values().iter().zip(target.values());
    let statistics = max.values_mut().iter_mut().zip(sum.values_mut());
    let own = sums.values_mut().chunks_exact_mut(width);
    for (((max, sum), own), (&s, &t)) in statistics.zip(own).zip(pairs) {
        if takes_part(s) {
            (*max, *sum) = (leaky(s + t), 1.0);
        } else {
            *max = f32::NEG_INFINITY;
            own.fill(0.0);
        }
    }
    Attention { max, sum, values: sums }
}

/// Rescales what was summed so far to a larger maximum.
fn raise_max(new: f32, max: &mut f32, sum: &mut f32, values: &mut [f32]) {
    if new > *max {
        let factor = (*max - new).exp();
        *max = new;
        *sum *= factor;
        values.iter_mut().for_each(|value| *value *= factor);
    }
}

pub(super) fn add_block(
    threads: &Threads,
    block: &CpuAdjacency,
    values: &DenseMatrix,
    (source, target): (&DenseMatrix, &DenseMatrix),
    state: &mut Attention<DenseMatrix>,
) {
    let n_heads = source.n_cols();
    let width = head_width(values, n_heads);
    let n_local = target.n_rows();
    assert_shape(values, (block.forward.n_cols(), n_heads * width), "values of a block");
    assert_shape(source, (block.forward.n_cols(), n_heads), "source scores");
    assert_shape(target, (n_local, n_heads), "target scores");
    assert_shape(&state.values, (n_local, n_heads * width), "values summed");
    block.assert_rows_below(n_local);
    let Attention { max, sum, values: sums } = state;
    // Maximum and sum of a row lie side by side while the block is added.
    let interleave = max.values().iter().zip(sum.values()).map(|(&m, &s)| [m, s]);
    let mut statistics: Vec<[f32; 2]> = interleave.collect();
    threads.row_chunks2(
        (sums.values_mut(), n_heads * width),
        (&mut statistics, n_heads),
        CHUNK_ROWS,
        |first, sums, statistics| {
            for position in block.positions(first, first + statistics.len() / n_heads) {
                let row = block.rows[position] as usize;
                let offset = row - first;
                let columns = block.forward.row(position);
                for head in 0..n_heads {
                    let [max, sum] = &mut statistics[offset * n_heads + head];
                    let sums = &mut sums[(offset * n_heads + head) * width..][..width];
                    let target = target.row(row)[head];
                    let score = |u: u32| leaky(source.row(u as usize)[head] + target);
                    let largest = columns.iter().map(|&u| score(u)).fold(*max, f32::max);
                    raise_max(largest, max, sum, sums);
                    for &u in columns {
                        if !takes_part(source.row(u as usize)[head]) {
                            continue;
                        }
                        let weight = (score(u) - *max).exp();
                        *sum += weight;
                        add_scaled(weight, &values.row(u as usize)[head * width..][..width], sums);
                    }
                }
            }
        },
    );
    for (place, [m, s]) in statistics.into_iter().enumerate() {
        max.values_mut()[place] = m;
        sum.values_mut()[place] = s;
    }
}

pub(super) fn finish(threads: &Threads, state: &mut Attention<DenseMatrix>) {
    let n_heads = state.max.n_cols();
    let width = head_width(&state.values, n_heads);
    let sum = &state.sum;
    threads.row_chunks(state.values.values_mut(), width, CHUNK_ROWS * n_heads, |first, rows| {
        for (place, values) in rows.chunks_exact_mut(width).enumerate() {
            let total = sum.values()[first + place];
            if total == 0.0 {
                continue;
            }
            values.iter_mut().for_each(|value| *value /= total);
        }
    });
    for (max, sum) in state.max.values_mut().iter_mut().zip(state.sum.values()) {
        *max += sum.ln();
    }
}

/// One edge and head: attention weight and gradient of the score before LeakyReLU.
fn edge_backward(score: f32, log_sum: f32, dweight: f32, dot: f32) -> (f32, f32) {
    let weight = (leaky(score) - log_sum).exp();
    (weight, weight * (dweight - dot) * leaky_slope(score))
}

pub(super) fn self_backward(
    values: &DenseMatrix,
    (source, target): (&DenseMatrix, &DenseMatrix),
    rows: AttentionRows<'_, DenseMatrix>,
    grads: AttentionGrads<'_, DenseMatrix>,
) {
    let n_heads = source.n_cols();
    let width = head_width(values, n_heads);
    assert_backward_shapes(values, (source, target), rows, &grads);
    assert_eq!(values.n_rows(), target.n_rows(), "rows and their own values");
    for row in 0..values.n_rows() {
        for head in 0..n_heads {
            let place = row * n_heads + head;
            let at = place * width;
            let dy = &rows.dy.values()[at..at + width];
            if !takes_part(source.values()[place]) {
                continue;
            }
            let score = source.values()[place] + target.values()[place];
            let (weight, dscore) = edge_backward(
                score,
                rows.log_sum.values()[place],
                dot(dy, &values.values()[at..at + width]),
                rows.dot.values()[place],
            );
            add_scaled(weight, dy, &mut grads.values.values_mut()[at..at + width]);
            grads.source.values_mut()[place] += dscore;
            grads.target.values_mut()[place] += dscore;
        }
    }
}

pub(super) fn block_backward(
    threads: &Threads,
    block: &CpuAdjacency,
    values: &DenseMatrix,
    scores: (&DenseMatrix, &DenseMatrix),
    rows: AttentionRows<'_, DenseMatrix>,
    grads: AttentionGrads<'_, DenseMatrix>,
) {
    let n_heads = scores.0.n_cols();
    assert_backward_shapes(values, scores, rows, &grads);
    assert_eq!(values.n_rows(), block.transposed.n_rows(), "values and columns of a block");
    block.assert_rows_below(scores.1.n_rows());
    let offsets = block.transposed.indptr();
    let n_columns = block.transposed.n_rows();
    // By column: gradients of values and source scores. Each edge's score gradient is kept, so that
    // the target scores' gradients are sums over rows without gathering the values again.
    let mut dscores = vec![0.0; block.transposed.n_edges() * n_heads];
    let mut rest = &mut dscores[..];
    let mut chunks = Vec::new();
    let dvalues = grads.values.values_mut().chunks_mut((CHUNK_ROWS * values.n_cols()).max(1));
    let dsource = grads.source.values_mut().chunks_mut((CHUNK_ROWS * n_heads).max(1));
    for (chunk, (dvalues, dsource)) in dvalues.zip(dsource).enumerate() {
        let first = chunk * CHUNK_ROWS;
        let last = (first + CHUNK_ROWS).min(n_columns);
        let (dscores, after) =
            rest.split_at_mut((offsets[last] - offsets[first]) as usize * n_heads);
        rest = after;
        chunks.push(ColumnGrads { columns: first..last, dvalues, dsource, dscores });
    }
    threads.each(chunks, |_, chunk| column_gradients(block, values, scores, rows, chunk));

    let row_edges = block.forward.indptr();
    threads.row_chunks(grads.target.values_mut(), n_heads, CHUNK_ROWS, |first, out| {
        for position in block.positions(first, first + out.len() / n_heads) {
            let dtarget = &mut out[(block.rows[position] as usize - first) * n_heads..][..n_heads];
            for edge in row_edges[position] as usize..row_edges[position + 1] as usize {
                let edge = block.to_transposed[edge] as usize;
                add_scaled(1.0, &dscores[edge * n_heads..][..n_heads], dtarget);
            }
        }
    });
}

/// The gradients of some columns of a block.
struct ColumnGrads<'a> {
    columns: std::ops::Range<usize>,
    dvalues: &'a mut [f32],
    dsource: &'a mut [f32],
    /// Of these columns' edges, in column order.
    dscores: &'a mut [f32],
}

fn column_gradients(
    block: &CpuAdjacency,
    values: &DenseMatrix,
    (source, target): (&DenseMatrix, &DenseMatrix),
    rows: AttentionRows<'_, DenseMatrix>,
    grads: ColumnGrads<'_>,
) {
    let n_heads = source.n_cols();
    let width = head_width(values, n_heads);
    let mut edges = grads.dscores.chunks_exact_mut(n_heads);
    for (offset, column) in grads.columns.enumerate() {
        let x = values.row(column);
        for (&row, dscores) in block.transposed.row(column).iter().zip(&mut edges) {
            let row = row as usize;
            for (head, dscore) in dscores.iter_mut().enumerate() {
                if !takes_part(source.row(column)[head]) {
                    *dscore = 0.0;
                    continue;
                }
                let part = head * width..(head + 1) * width;
                let dy = &rows.dy.row(row)[part.clone()];
                let (weight, gradient) = edge_backward(
                    source.row(column)[head] + target.row(row)[head],
                    rows.log_sum.row(row)[head],
                    dot(dy, &x[part]),
                    rows.dot.row(row)[head],
                );
                let at = offset * n_heads + head;
                add_scaled(weight, dy, &mut grads.dvalues[at * width..][..width]);
                grads.dsource[at] += gradient;
                *dscore = gradient;
            }
        }
    }
}

pub(super) fn head_dots(x: &DenseMatrix, y: &DenseMatrix, n_heads: usize) -> DenseMatrix {
    assert_same_shape(x, y);
    let width = head_width(x, n_heads);
    let mut out = zeros(x.n_rows(), n_heads);
    let pairs = x.values().chunks_exact(width).zip(y.values().chunks_exact(width));
    for (value, (a, b)) in out.values_mut().iter_mut().zip(pairs) {
        *value = dot(a, b);
    }
    out
}

pub(super) fn head_mean(x: &DenseMatrix, n_heads: usize) -> DenseMatrix {
    let width = head_width(x, n_heads);
    let mut out = zeros(x.n_rows(), width);
    let share = 1.0 / n_heads as f32;
    for (row, mean) in out.values_mut().chunks_exact_mut(width).enumerate() {
        for head in 0..n_heads {
            add_scaled(share, &x.row(row)[head * width..][..width], mean);
        }
    }
    out
}

pub(super) fn head_mean_backward(dy: &DenseMatrix, n_heads: usize) -> DenseMatrix {
    let width = dy.n_cols();
    let mut out = zeros(dy.n_rows(), n_heads * width);
    let share = 1.0 / n_heads as f32;
    for (row, dx) in out.values_mut().chunks_exact_mut(n_heads * width).enumerate() {
        for head in 0..n_heads {
            add_scaled(share, dy.row(row), &mut dx[head * width..][..width]);
        }
    }
    out
}
