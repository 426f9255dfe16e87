//! Products and means of heads.

use super::head_width;
use crate::cpu::aggregate::CHUNK_ROWS;
use crate::cpu::kernels::{add_scaled, dot};
use crate::cpu::row_wise::each_row;
use crate::cpu::{CpuBackend, CpuMatrix, assert_same_shape};

pub(in crate::cpu) fn head_dots(
    cpu: &CpuBackend,
    x: &CpuMatrix,
    y: &CpuMatrix,
    n_heads: usize,
) -> CpuMatrix {
    assert_same_shape(x, y);
    let width = head_width(x, n_heads);
    let mut out = CpuMatrix::to_assign(&cpu.pool, x.n_rows(), n_heads);
    cpu.threads.row_chunks(out.values_mut(), n_heads, CHUNK_ROWS, |first, dots| {
        let at = first * n_heads * width;
        let pairs = x.values()[at..].chunks_exact(width).zip(y.values()[at..].chunks_exact(width));
        for (value, (a, b)) in dots.iter_mut().zip(pairs) {
            *value = dot(a, b);
        }
    });
    out
}

pub(in crate::cpu) fn head_mean(cpu: &CpuBackend, x: &CpuMatrix, n_heads: usize) -> CpuMatrix {
    let width = head_width(x, n_heads);
    let mut out = CpuMatrix::to_assign(&cpu.pool, x.n_rows(), width);
    let share = 1.0 / n_heads as f32;
    each_row(&cpu.threads, &mut out, |row, mean| {
        mean.fill(0.0);
        for head in x.row(row).chunks_exact(width) {
            add_scaled(share, head, mean);
        }
    });
    out
}

pub(in crate::cpu) fn head_mean_backward(
    cpu: &CpuBackend,
    dy: &CpuMatrix,
    n_heads: usize,
) -> CpuMatrix {
    let mut out = CpuMatrix::to_assign(&cpu.pool, dy.n_rows(), n_heads * dy.n_cols());
    let share = 1.0 / n_heads as f32;
    each_row(&cpu.threads, &mut out, |row, dx| {
        for dx in dx.chunks_exact_mut(dy.n_cols()) {
            for (dx, &dy) in dx.iter_mut().zip(dy.row(row)) {
                *dx = share * dy;
            }
        }
    });
    out
}
