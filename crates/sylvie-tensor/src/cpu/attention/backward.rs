//! Gradients of attention, edge by edge.

use super::{assert_shape, head_width, leaky, leaky_slope, takes_part};
use crate::backend::{AttentionGrads, AttentionRows};
use crate::cpu::aggregate::{CHUNK_ROWS, CpuAdjacency};
use crate::cpu::kernels::{add_scaled, dot};
use crate::cpu::{CpuBackend, CpuMatrix, assert_same_shape};

fn assert_backward_shapes(
    values: &CpuMatrix,
    (source, target): (&CpuMatrix, &CpuMatrix),
    rows: AttentionRows<'_, CpuMatrix>,
    grads: &AttentionGrads<'_, CpuMatrix>,
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

/// One edge and head: attention weight and gradient of the score before LeakyReLU.
fn edge_backward(score: f32, log_sum: f32, dweight: f32, dot: f32) -> (f32, f32) {
    let weight = (leaky(score) - log_sum).exp();
    (weight, weight * (dweight - dot) * leaky_slope(score))
}

pub(in crate::cpu) fn self_backward(
    cpu: &CpuBackend,
    values: &CpuMatrix,
    (source, target): (&CpuMatrix, &CpuMatrix),
    rows: AttentionRows<'_, CpuMatrix>,
    grads: AttentionGrads<'_, CpuMatrix>,
) {
    let n_heads = source.n_cols();
    let width = head_width(values, n_heads);
    assert_backward_shapes(values, (source, target), rows, &grads);
    assert_eq!(values.n_rows(), target.n_rows(), "rows and their own values");
    let size = CHUNK_ROWS * n_heads;
    let dsource = grads.source.values_mut().chunks_mut(size);
    let dscores = dsource.zip(grads.target.values_mut().chunks_mut(size));
    let chunks = grads.values.values_mut().chunks_mut(size * width).zip(dscores);
    cpu.threads.each(chunks.collect(), |chunk, (dvalues, (dsource, dtarget))| {
        let places = dvalues.chunks_exact_mut(width).zip(dsource.iter_mut().zip(dtarget));
        for (place, (dvalues, (dsource, dtarget))) in (chunk * size..).zip(places) {
            let source = source.values()[place];
            if !takes_part(source) {
                continue;
            }
            let at = place * width;
            let dy = &rows.dy.values()[at..at + width];
            let (weight, dscore) = edge_backward(
                source + target.values()[place],
                rows.log_sum.values()[place],
                dot(dy, &values.values()[at..at + width]),
                rows.dot.values()[place],
            );
            add_scaled(weight, dy, dvalues);
            *dsource += dscore;
            *dtarget += dscore;
        }
    });
}

pub(in crate::cpu) fn block_backward(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    values: &CpuMatrix,
    scores: (&CpuMatrix, &CpuMatrix),
    rows: AttentionRows<'_, CpuMatrix>,
    grads: AttentionGrads<'_, CpuMatrix>,
) {
    let n_heads = scores.0.n_cols();
    assert_backward_shapes(values, scores, rows, &grads);
    assert_eq!(values.n_rows(), block.transposed.n_rows(), "values and columns of a block");
    block.assert_rows_below(scores.1.n_rows());
    let offsets = block.transposed.indptr();
    let n_columns = block.transposed.n_rows();
    // By column: gradients of values and source scores. Each edge's score gradient is kept, so that
    // the target scores' gradients are sums over rows without gathering the values again.
    let mut dscores = CpuMatrix::to_assign(&cpu.pool, block.transposed.n_edges(), n_heads);
    let mut rest = dscores.values_mut();
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
    cpu.threads.each(chunks, |_, chunk| column_gradients(block, values, scores, rows, chunk));

    let row_edges = block.forward.indptr();
    cpu.threads.row_chunks(grads.target.values_mut(), n_heads, CHUNK_ROWS, |first, out| {
        for position in block.positions(first, first + out.len() / n_heads) {
            let dtarget = &mut out[(block.rows[position] as usize - first) * n_heads..][..n_heads];
            for edge in row_edges[position] as usize..row_edges[position + 1] as usize {
                let edge = block.to_transposed[edge] as usize;
                add_scaled(1.0, dscores.row(edge), dtarget);
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
    values: &CpuMatrix,
    (source, target): (&CpuMatrix, &CpuMatrix),
    rows: AttentionRows<'_, CpuMatrix>,
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
