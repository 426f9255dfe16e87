//! Gradients of attention, edge by edge.

use super::attended::{add_attended_back, first_columns};
use super::edges::{
    Back, Coming, STATISTICS, add_rows, add_rows_at, list_len, pattern, spread,
    statistics_of_edges, weigh_back,
};
use super::{assert_shape, head_width, is_shared, leaky, leaky_slope, takes_part};
use crate::cpu::aggregate::{CHUNK_ROWS, CpuAdjacency, Places};
use crate::cpu::gather::Rows;
use crate::cpu::kernels::{add_scaled, dot, exp};
use crate::cpu::row_wise::each_row;
use crate::cpu::{CpuBackend, CpuMatrix, assert_same_shape};
use crate::operands::{AttentionGrads, AttentionRows};

/// Edges of a column that go back together: what they need fits the nearest cache.
const PIECE_EDGES: usize = 64;

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
    let dy_cols = if is_shared(rows.dy, n_heads, n_cols) { n_cols / n_heads } else { n_cols };
    assert_shape(rows.dy, (target.n_rows(), dy_cols), "output gradients");
    assert_same_shape(grads.values, values);
    assert_same_shape(grads.source, source);
    assert_same_shape(grads.target, target);
}

/// One edge and head: attention weight and gradient of the score before LeakyReLU.
fn edge_backward(score: f32, log_sum: f32, dweight: f32, dot: f32) -> (f32, f32) {
    let weight = exp(leaky(score) - log_sum);
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
    let is_shared = is_shared(rows.dy, n_heads, values.n_cols());
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
            let dy_at = if is_shared { place / n_heads * width } else { at };
            let dy = &rows.dy.values()[dy_at..dy_at + width];
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
    let statistics = row_statistics(cpu, scores.1, rows);
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
    let gathered = Gathered { dy: rows.dy, statistics: &statistics };
    cpu.threads.each(chunks, |_, chunk| {
        column_gradients(block, (values, scores.0), gathered, chunk);
    });

    let (row_edges, to_transposed) = (block.forward.indptr(), block.to_transposed());
    cpu.threads.row_chunks(grads.target.values_mut(), n_heads, CHUNK_ROWS, |first, out| {
        for position in block.positions(first, first + out.len() / n_heads) {
            let dtarget = &mut out[(block.rows[position] as usize - first) * n_heads..][..n_heads];
            let edges = row_edges[position] as usize..row_edges[position + 1] as usize;
            match to_transposed {
                Places::Short(places) => {
                    add_rows_at(dscores.values(), (&places[..], edges), dtarget)
                }
                Places::Long(places) => {
                    add_rows_at(dscores.values(), (&places[..], edges), dtarget)
                }
            }
        }
    });
}

/// What rows bring to their edges' weights, side by side: target scores, logs of sums, and dots.
fn row_statistics(
    cpu: &CpuBackend,
    target: &CpuMatrix,
    rows: AttentionRows<'_, CpuMatrix>,
) -> CpuMatrix {
    let n_heads = target.n_cols();
    let mut statistics = CpuMatrix::to_assign(&cpu.pool, target.n_rows(), STATISTICS * n_heads);
    each_row(&cpu.threads, &mut statistics, |row, out| {
        for (out, from) in out.chunks_exact_mut(n_heads).zip([target, rows.log_sum, rows.dot]) {
            out.copy_from_slice(from.row(row));
        }
    });
    statistics
}

/// What is gathered of a column's readers.
#[derive(Clone, Copy)]
struct Gathered<'a> {
    dy: &'a CpuMatrix,
    statistics: &'a CpuMatrix,
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
    (values, source): (&CpuMatrix, &CpuMatrix),
    gathered: Gathered<'_>,
    grads: ColumnGrads<'_>,
) {
    let (n_heads, width) = (source.n_cols(), values.n_cols());
    let indptr = block.transposed.indptr();
    let rows = Rows { columns: block.transposed.indices(), x: gathered.dy.values() };
    let dy_cols = gathered.dy.n_cols();
    let is_shared = dy_cols < width;
    let n_cols = if is_shared { 0 } else { first_columns(n_heads, width / n_heads) };
    let coming = Coming { x: rows.x, width: dy_cols, n_cols };
    let (mut back, mut pattern) = (Back::new(PIECE_EDGES, n_heads), pattern(n_heads));
    let mut rest = grads.dscores;
    let outputs =
        grads.dvalues.chunks_exact_mut(width).zip(grads.dsource.chunks_exact_mut(n_heads));
    for (column, (dvalues, dsource)) in grads.columns.zip(outputs) {
        spread(source.row(column).iter().copied(), &mut pattern);
        let (mut first, last) = (indptr[column] as usize, indptr[column + 1] as usize);
        while first < last {
            let edges = first..last.min(first + PIECE_EDGES);
            first = edges.end;
            let (n, n_listed) = (edges.len() * n_heads, list_len(edges.len(), n_heads));
            let of_edges = (rows.columns, edges.clone());
            let statistics = gathered.statistics.values();
            statistics_of_edges(statistics, n_heads, of_edges, coming, &mut back);
            weigh_back(&pattern, &mut back.slopes[..n_listed], &mut back.weights[..n_listed]);
            let of_edges = (&back.weights[..n], &mut back.products[..n], n_heads);
            add_attended_back((rows, dy_cols), edges, values.row(column), of_edges, dvalues);
            let (dscores, after) = rest.split_at_mut(n);
            rest = after;
            dscores.copy_from_slice(back.score_gradients(n));
            add_rows(dscores, dsource);
        }
    }
}
