//! The running softmax-weighted sum.

use super::{assert_shape, head_width, leaky, takes_part};
use crate::backend::Attention;
use crate::cpu::aggregate::{CHUNK_ROWS, CpuAdjacency};
use crate::cpu::gather::{Rows, add_attended, prefetch};
use crate::cpu::kernels::{exp, exp_all, scale};
use crate::cpu::{CpuBackend, CpuMatrix};

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

/// Edges ahead of which source scores are asked for.
const EDGES_AHEAD: usize = 16;

/// Scores of a row's edges, one an edge and head, and the largest of each head. `columns` has those of all
/// edges; source scores of later rows are asked for ahead of their turn.
fn row_scores(
    (columns, edges): (&[u32], std::ops::Range<usize>),
    source: &CpuMatrix,
    target: &[f32],
    scores: &mut Vec<f32>,
    largest: &mut [f32],
) {
    let n_heads = target.len();
    scores.clear();
    for edge in edges {
        if let Some(&later) = columns.get(edge + EDGES_AHEAD) {
            prefetch(source.values(), later as usize * n_heads);
        }
        let at = columns[edge] as usize * n_heads;
        let source = &source.values()[at..at + n_heads];
        for ((&source, &target), largest) in source.iter().zip(target).zip(&mut *largest) {
            let score = leaky(source + target);
            *largest = largest.max(score);
            scores.push(score);
        }
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
    let pairs = statistics.values_mut().as_chunks_mut::<2>().0;
    for (pair, (&max, &sum)) in pairs.iter_mut().zip(max.values().iter().zip(sum.values())) {
        *pair = [max, sum];
    }
    let (indptr, rows) =
        (block.forward.indptr(), Rows { columns: block.forward.indices(), x: values.values() });
    cpu.threads.row_chunks2(
        (sums.values_mut(), n_heads * width),
        (&mut *pairs, n_heads),
        CHUNK_ROWS,
        |first, sums, statistics| {
            let (mut weights, mut largest) = (Vec::new(), vec![0.0; n_heads]);
            for position in block.positions(first, first + statistics.len() / n_heads) {
                let row = block.rows[position] as usize;
                let statistics = &mut statistics[(row - first) * n_heads..][..n_heads];
                let sums = &mut sums[(row - first) * n_heads * width..][..n_heads * width];
                let edges = indptr[position] as usize..indptr[position + 1] as usize;
                for (largest, [max, _]) in largest.iter_mut().zip(&*statistics) {
                    *largest = *max;
                }
                let of_row = (rows.columns, edges.clone());
                row_scores(of_row, source, target.row(row), &mut weights, &mut largest);
                let heads = statistics.iter_mut().zip(sums.chunks_exact_mut(width));
                for (([max, sum], sums), &largest) in heads.zip(&largest) {
                    raise_max(largest, max, sum, sums);
                }
                to_weights(&mut weights, statistics);
                add_attended(rows, edges, (&weights, n_heads), sums);
            }
        },
    );
    let separate = max.values_mut().iter_mut().zip(sum.values_mut());
    for (&mut [new_max, new_sum], (max, sum)) in pairs.iter_mut().zip(separate) {
        (*max, *sum) = (new_max, new_sum);
    }
}

/// Turns scores into weights, and adds them to the sums of their heads.
fn to_weights(scores: &mut [f32], statistics: &mut [[f32; 2]]) {
    for scores in scores.chunks_exact_mut(statistics.len()) {
        for (score, [max, _]) in scores.iter_mut().zip(&*statistics) {
            // Where nobody takes part the maximum is minus infinity too.
            *score = if *score == f32::NEG_INFINITY { *score } else { *score - *max };
        }
    }
    exp_all(scores);
    for weights in scores.chunks_exact(statistics.len()) {
        for (weight, [_, sum]) in weights.iter().zip(&mut *statistics) {
            *sum += weight;
        }
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
