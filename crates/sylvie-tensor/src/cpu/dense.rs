//! Dense products, by the matrixmultiply crate on fixed chunks of rows.
#![allow(unsafe_code)]

use super::kernels::{add_scaled, scale};
use super::threads::Threads;
use super::{CpuBackend, CpuMatrix};
use crate::operands::Mode;

/// Rows of the left factor multiplied at once.
const CHUNK_ROWS: usize = 512;
/// Rows summed into one partial product of `a^T b`; partial products are added in order.
const PARTIAL_ROWS: usize = 4096;
/// Partial products held at once.
const N_PARTIALS: usize = 8;

/// A matrix inside a slice: `n_rows x n_cols` with the given strides.
#[derive(Clone, Copy)]
struct View<'a> {
    values: &'a [f32],
    n_rows: usize,
    n_cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> View<'a> {
    fn rows(values: &'a [f32], n_cols: usize) -> Self {
        let n_rows = values.len().checked_div(n_cols).unwrap_or(0);
        Self { values, n_rows, n_cols, row_stride: n_cols, col_stride: 1 }
    }

    fn transposed(self) -> Self {
        Self {
            n_rows: self.n_cols,
            n_cols: self.n_rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    fn is_inside(&self) -> bool {
        self.n_rows == 0
            || self.n_cols == 0
            || (self.n_rows - 1) * self.row_stride + (self.n_cols - 1) * self.col_stride
                < self.values.len()
    }
}

/// `out (+)= a b` on one thread; `out` is row-major.
fn product(a: View<'_>, b: View<'_>, mode: Mode, out: &mut [f32]) {
    assert_eq!(a.n_cols, b.n_rows, "inner dimensions of a product");
    assert_eq!(out.len(), a.n_rows * b.n_cols, "length of a product");
    assert!(a.is_inside() && b.is_inside(), "factors lie inside their slices");
    if out.is_empty() {
        return;
    }
    // SAFETY: `a` and `b` lie inside their slices (asserted), `out` holds `a.n_rows * b.n_cols` values
    // and is borrowed mutably, so it overlaps neither.
    unsafe {
        matrixmultiply::sgemm(
            a.n_rows,
            a.n_cols,
            b.n_cols,
            1.0,
            a.values.as_ptr(),
            a.row_stride as isize,
            a.col_stride as isize,
            b.values.as_ptr(),
            b.row_stride as isize,
            b.col_stride as isize,
            if mode == Mode::Add { 1.0 } else { 0.0 },
            out.as_mut_ptr(),
            b.n_cols as isize,
            1,
        );
    }
}

/// `out (+)= a b`; `before(rows)` on rows of `out` and `then(first_row, rows)` while they are in a cache.
fn chunked(
    threads: &Threads,
    (a, b): (&CpuMatrix, View<'_>),
    mode: Mode,
    out: &mut CpuMatrix,
    before: impl Fn(&mut [f32]) + Sync,
    then: impl Fn(usize, &mut [f32]) + Sync,
) {
    let n_inner = a.n_cols();
    assert_eq!(a.n_rows(), out.n_rows(), "rows of a product");
    assert_eq!(b.n_cols, out.n_cols(), "columns of a product");
    threads.row_chunks(out.values_mut(), b.n_cols, CHUNK_ROWS, |first, rows| {
        let n_rows = rows.len() / b.n_cols;
        let a_rows = &a.values()[first * n_inner..(first + n_rows) * n_inner];
        let a_view = View { n_rows, ..View::rows(a_rows, n_inner) };
        before(rows);
        product(a_view, b, mode, rows);
        then(first, rows);
    });
}

pub(super) fn matmul(
    threads: &Threads,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    assert_eq!(a.n_cols(), b.n_rows(), "inner dimensions of a product");
    let b = View { n_rows: b.n_rows(), ..View::rows(b.values(), b.n_cols()) };
    chunked(threads, (a, b), mode, out, |_| (), |_, _| ());
}

pub(super) fn matmul_bias(
    threads: &Threads,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    bias: &CpuMatrix,
    out: &mut CpuMatrix,
) {
    assert_eq!(a.n_cols(), b.n_rows(), "inner dimensions of a product");
    assert_eq!(bias.shape(), (1, b.n_cols()), "shape of a bias");
    let b = View { n_rows: b.n_rows(), ..View::rows(b.values(), b.n_cols()) };
    let rows_of = |rows: &mut [f32], work: fn(&[f32], &mut [f32])| {
        rows.chunks_exact_mut(bias.n_cols()).for_each(|row| work(bias.values(), row));
    };
    match mode {
        // The product then adds to rows that it finds in a cache, where it would wait for them.
        Mode::Assign => {
            let before = |rows: &mut [f32]| rows_of(rows, |bias, row| row.copy_from_slice(bias));
            chunked(threads, (a, b), Mode::Add, out, before, |_, _| ());
        }
        Mode::Add => {
            let then = |_, rows: &mut [f32]| rows_of(rows, |bias, row| add_scaled(1.0, bias, row));
            chunked(threads, (a, b), mode, out, |_| (), then);
        }
    }
}

pub(super) fn matmul_nt(
    threads: &Threads,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    assert_eq!(a.n_cols(), b.n_cols(), "inner dimensions of a product");
    let b = View { n_rows: b.n_rows(), ..View::rows(b.values(), b.n_cols()) };
    chunked(threads, (a, b.transposed()), mode, out, |_| (), |_, _| ());
}

pub(super) fn matmul_nt_scaled(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: &CpuMatrix,
    factors: &CpuMatrix,
) -> CpuMatrix {
    assert_eq!(a.n_cols(), b.n_cols(), "inner dimensions of a product");
    assert_eq!(factors.shape(), (a.n_rows(), 1), "shape of row factors");
    let width = b.n_rows();
    let b = View { n_rows: width, ..View::rows(b.values(), b.n_cols()) };
    let mut out = CpuMatrix::to_assign(&cpu.pool, a.n_rows(), width);
    let then = |first, rows: &mut [f32]| {
        for (row, values) in (first..).zip(rows.chunks_exact_mut(width)) {
            scale(factors.values()[row], values);
        }
    };
    chunked(&cpu.threads, (a, b.transposed()), Mode::Assign, &mut out, |_| (), then);
    out
}

pub(super) fn matmul_tn(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    assert_eq!(a.n_rows(), b.n_rows(), "inner dimensions of a product");
    assert_eq!((out.n_rows(), out.n_cols()), (a.n_cols(), b.n_cols()), "shape of a product");
    if mode == Mode::Assign {
        out.values_mut().fill(0.0);
    }
    let n_partials = a.n_rows().div_ceil(PARTIAL_ROWS);
    for batch in (0..n_partials).step_by(N_PARTIALS) {
        let n_batch = N_PARTIALS.min(n_partials - batch);
        let partials = cpu.threads.map(n_batch, |offset| {
            let first = (batch + offset) * PARTIAL_ROWS;
            let last = (first + PARTIAL_ROWS).min(a.n_rows());
            let rows = |x: &CpuMatrix| first * x.n_cols()..last * x.n_cols();
            let a_view =
                View { n_rows: last - first, ..View::rows(&a.values()[rows(a)], a.n_cols()) };
            let b_view =
                View { n_rows: last - first, ..View::rows(&b.values()[rows(b)], b.n_cols()) };
            let mut partial = CpuMatrix::to_assign(&cpu.pool, a.n_cols(), b.n_cols());
            product(a_view.transposed(), b_view, Mode::Assign, partial.values_mut());
            partial
        });
        for partial in partials {
            for (sum, value) in out.values_mut().iter_mut().zip(partial.values()) {
                *sum += value;
            }
        }
    }
}
