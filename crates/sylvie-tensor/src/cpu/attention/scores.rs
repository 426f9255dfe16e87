//! Scores of rows, the products of each head with its weights.

use super::assert_shape;
use crate::cpu::aggregate::CHUNK_ROWS;
use crate::cpu::kernels::{add_scaled, dot};
use crate::cpu::threads::Threads;
use crate::cpu::{CpuBackend, CpuMatrix};

pub(in crate::cpu) fn scores(cpu: &CpuBackend, x: &CpuMatrix, weights: &CpuMatrix) -> CpuMatrix {
    let (n_heads, width) = (weights.n_rows(), weights.n_cols());
    assert_eq!(x.n_cols(), n_heads * width, "columns of heads");
    let mut out = CpuMatrix::to_assign(&cpu.pool, x.n_rows(), n_heads);
    cpu.threads.row_chunks(out.values_mut(), n_heads, CHUNK_ROWS, |first, rows| {
        for (row, scores) in rows.chunks_exact_mut(n_heads).enumerate() {
            let values = x.row(first + row);
            for (head, score) in scores.iter_mut().enumerate() {
                *score = dot(&values[head * width..][..width], weights.row(head));
            }
        }
    });
    out
}

pub(in crate::cpu) fn scores_backward(
    threads: &Threads,
    (x, weights): (&CpuMatrix, &CpuMatrix),
    dscores: &CpuMatrix,
    dx: &mut CpuMatrix,
    dweights: &mut CpuMatrix,
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
