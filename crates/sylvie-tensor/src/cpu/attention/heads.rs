//! Products and means of heads.

use super::{assert_shape, head_width, is_shared};
use crate::cpu::aggregate::CHUNK_ROWS;
use crate::cpu::kernels::{add_scaled, dot};
use crate::cpu::row_wise::each_row;
use crate::cpu::{CpuBackend, CpuMatrix};

pub(in crate::cpu) fn head_dots(
    cpu: &CpuBackend,
    x: &CpuMatrix,
    y: &CpuMatrix,
    n_heads: usize,
) -> CpuMatrix {
    let width = head_width(y, n_heads);
    let is_shared = is_shared(x, n_heads, y.n_cols());
    assert_shape(x, (y.n_rows(), if is_shared { width } else { y.n_cols() }), "a factor");
    let mut out = CpuMatrix::to_assign(&cpu.pool, y.n_rows(), n_heads);
    cpu.threads.row_chunks(out.values_mut(), n_heads, CHUNK_ROWS, |first, dots| {
        for (row, dots) in (first..).zip(dots.chunks_exact_mut(n_heads)) {
            let (x, y) = (x.row(row), y.row(row));
            for (head, value) in dots.iter_mut().enumerate() {
                let at = head * width;
                let x_at = if is_shared { 0 } else { at };
                *value = dot(&x[x_at..x_at + width], &y[at..at + width]);
            }
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
    let mut out = CpuMatrix::to_assign(&cpu.pool, dy.n_rows(), dy.n_cols());
    let share = 1.0 / n_heads as f32;
    each_row(&cpu.threads, &mut out, |row, dx| {
        for (dx, &dy) in dx.iter_mut().zip(dy.row(row)) {
            *dx = share * dy;
        }
    });
    out
}
