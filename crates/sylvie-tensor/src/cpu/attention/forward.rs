//! The running softmax-weighted sum.

use super::attended::{add_attended, first_columns};
use super::edges::{
    Coming, add_rows, fold_largest, list_len, pattern, score_edges, source_scores, spread,
    weigh_edges,
};
use super::{assert_shape, head_width, leaky, takes_part};
use crate::cpu::aggregate::{CHUNK_ROWS, CpuAdjacency};
use crate::cpu::gather::Rows;
use crate::cpu::kernels::{exp, scale};
use crate::cpu::{CpuBackend, CpuMatrix};
use crate::operands::Attention;

pub(in crate::cpu) fn begin(
    cpu: &CpuBackend,
    values: &CpuMatrix,
    (source, target): (&CpuMatrix, &CpuMatrix),
) -> Attention<CpuMatrix> {
    let (n_rows, n_heads) = (values.n_rows(), source.n_cols());
    let width = head_width(values, n_heads);
    assert_shape(source, (n_rows, n_heads), "source scores");
    assert_shape(target, (n_rows, n_heads), "target scores");
    let mut max = CpuMatrix::to_assign(&cpu.pool, n_rows, n_heads);
    let mut sum = CpuMatrix::to_assign(&cpu.pool, n_rows, n_heads);
    let mut sums = CpuMatrix::to_assign(&cpu.pool, n_rows, n_heads * width);
    let size = CHUNK_ROWS * n_heads;
    let statistics = max.values_mut().chunks_mut(size).zip(sum.values_mut().chunks_mut(size));
    let chunks = statistics.zip(sums.values_mut().chunks_mut(size * width));
    cpu.threads.each(chunks.collect(), |chunk, ((max, sum), sums)| {
        let statistics = max.iter_mut().zip(sum).zip(sums.chunks_exact_mut(width));
        for (place, ((max, sum), sums)) in (chunk * size..).zip(statistics) {
            let (source, target) = (source.values()[place], target.values()[place]);
            if takes_part(source) {
                (*max, *sum) = (leaky(source + target), 1.0);
                sums.copy_from_slice(&values.values()[place * width..][..width]);
            } else {
                (*max, *sum) = (f32::NEG_INFINITY, 0.0);
                sums.fill(0.0);
            }
        }
    });
    Attention { max, sum, values: sums }
}

/// Rescales what was summed so far to a larger maximum.
fn raise_max(new: f32, max: &mut f32, sum: &mut f32, values: &mut [f32]) {
    if new > *max {
        let factor = exp(*max - new);
        *max = new;
        *sum *= factor;
        scale(factor, values);
    }
}

/// Edges of a row that are weighed together: what they need fits the nearest cache.
const PIECE_EDGES: usize = 64;

/// The rows that edges lead to.
#[derive(Clone, Copy)]
struct Columns<'a> {
    rows: Rows<'a>,
    source: &'a [f32],
}

/// Numbers of the edges of one piece and patterns of heads, used again for each.
struct Piece {
    weights: Vec<f32>,
    target: Vec<f32>,
    largest: Vec<f32>,
}

impl Piece {
    fn new(n_heads: usize) -> Self {
        let weights = vec![0.0; list_len(PIECE_EDGES, n_heads)];
        Self { weights, target: pattern(n_heads), largest: pattern(n_heads) }
    }

    /// Adds a row's edges to its maxima and sums of weights, one a head, and to its sums of values.
    fn add_row(
        &mut self,
        columns: Columns<'_>,
        edges: std::ops::Range<usize>,
        target: &[f32],
        (max, sum): (&mut [f32], &mut [f32]),
        sums: &mut [f32],
    ) {
        spread(target.iter().copied(), &mut self.target);
        let mut first = edges.start;
        while first < edges.end {
            let last = edges.end.min(first + PIECE_EDGES);
            self.add_edges(columns, first..last, (max, sum), sums);
            first = last;
        }
    }

    fn add_edges(
        &mut self,
        columns: Columns<'_>,
        edges: std::ops::Range<usize>,
        (max, sum): (&mut [f32], &mut [f32]),
        sums: &mut [f32],
    ) {
        let (n_heads, width) = (max.len(), sums.len() / max.len());
        let weights = &mut self.weights[..list_len(edges.len(), n_heads)];
        let n_cols = first_columns(n_heads, width);
        let coming = Coming { x: columns.rows.x, width: sums.len(), n_cols };
        let of_row = (columns.rows.columns, edges.clone());
        source_scores(columns.source, n_heads, of_row, coming, weights);
        self.largest.fill(f32::NEG_INFINITY);
        score_edges(&self.target, weights, &mut self.largest);
        fold_largest(&mut self.largest);
        let heads = max.iter_mut().zip(&mut *sum).zip(sums.chunks_exact_mut(width));
        for (((max, sum), sums), &largest) in heads.zip(&self.largest) {
            raise_max(largest, max, sum, sums);
        }
        // Where nobody takes part the maximum is minus infinity as scores are, which must stay so.
        let lowered = max.iter().map(|&max| if takes_part(max) { max } else { 0.0 });
        spread(lowered, &mut self.largest);
        weigh_edges(&self.largest, weights);
        let weights = &weights[..edges.len() * n_heads];
        add_rows(weights, sum);
        add_attended(columns.rows, edges, (weights, n_heads), sums);
    }
}

pub(in crate::cpu) fn add_block(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    values: &CpuMatrix,
    (source, target): (&CpuMatrix, &CpuMatrix),
    state: &mut Attention<CpuMatrix>,
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
    let mut statistics = CpuMatrix::to_assign(&cpu.pool, n_local, 2 * n_heads);
    for (row, statistics) in statistics.values_mut().chunks_exact_mut(2 * n_heads).enumerate() {
        statistics[..n_heads].copy_from_slice(max.row(row));
        statistics[n_heads..].copy_from_slice(sum.row(row));
    }
    let indptr = block.forward.indptr();
    let rows = Rows { columns: block.forward.indices(), x: values.values() };
    let columns = Columns { rows, source: source.values() };
    cpu.threads.row_chunks2(
        (sums.values_mut(), n_heads * width),
        (statistics.values_mut(), 2 * n_heads),
        CHUNK_ROWS,
        |first, sums, statistics| {
            let mut piece = Piece::new(n_heads);
            for position in block.positions(first, first + statistics.len() / (2 * n_heads)) {
                let row = block.rows[position] as usize;
                let statistics = &mut statistics[(row - first) * 2 * n_heads..][..2 * n_heads];
                let sums = &mut sums[(row - first) * n_heads * width..][..n_heads * width];
                let edges = indptr[position] as usize..indptr[position + 1] as usize;
                let of_row = statistics.split_at_mut(n_heads);
                piece.add_row(columns, edges, target.row(row), of_row, sums);
            }
        },
    );
    let separate = max.values_mut().chunks_exact_mut(n_heads);
    let separate = separate.zip(sum.values_mut().chunks_exact_mut(n_heads));
    for (statistics, (max, sum)) in statistics.values().chunks_exact(2 * n_heads).zip(separate) {
        max.copy_from_slice(&statistics[..n_heads]);
        sum.copy_from_slice(&statistics[n_heads..]);
    }
}

pub(in crate::cpu) fn finish(cpu: &CpuBackend, state: &mut Attention<CpuMatrix>) {
    let n_heads = state.max.n_cols();
    let width = head_width(&state.values, n_heads);
    let size = CHUNK_ROWS * n_heads;
    let Attention { max, sum, values } = state;
    let chunks =
        max.values_mut().chunks_mut(size).zip(values.values_mut().chunks_mut(size * width));
    cpu.threads.each(chunks.collect(), |chunk, (max, values)| {
        let places = max.iter_mut().zip(values.chunks_exact_mut(width));
        for ((max, values), &sum) in places.zip(&sum.values()[chunk * size..]) {
            // Without anybody who takes part the sum is 0, and the mean stays so.
            if sum != 0.0 {
                values.iter_mut().for_each(|value| *value /= sum);
            }
            *max += sum.ln();
        }
    });
}
