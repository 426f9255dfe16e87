//! Dense products on fixed chunks of rows: rows times weights by panels of the weights; gradients of weights, and all products
//! where the processor lacks AVX2 or FMA, by the matrixmultiply crate.
// The library takes pointers.
#![allow(unsafe_code)]

mod panels;
mod tile;

use panels::{Around, Panels};
use tile::Fma;

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

    fn value(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.row_stride + column * self.col_stride]
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

/// `out (+)= a b`, in chunks of rows: by panels of `b` where the processor has AVX2 and FMA, else by the library.
fn rows_times(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: View<'_>,
    around: Around<'_>,
    out: &mut CpuMatrix,
) {
    assert_eq!(a.n_rows(), out.n_rows(), "rows of a product");
    assert_eq!(a.n_cols(), b.n_rows, "inner dimensions of a product");
    assert_eq!(b.n_cols, out.n_cols(), "columns of a product");
    match Fma::detect() {
        Some(fma) => by_panels(cpu, fma, (a, b), around, out),
        None => by_library(&cpu.threads, (a, b), around, out),
    }
}

fn by_panels(
    cpu: &CpuBackend,
    fma: Fma,
    (a, b): (&CpuMatrix, View<'_>),
    around: Around<'_>,
    out: &mut CpuMatrix,
) {
    let panels = Panels::new(fma, &cpu.pool, b);
    cpu.threads.row_chunks(out.values_mut(), b.n_cols, panels::CHUNK_ROWS, |first, rows| {
        panels.multiply(a.values(), first, around, rows);
    });
}

fn by_library(
    threads: &Threads,
    (a, b): (&CpuMatrix, View<'_>),
    around: Around<'_>,
    out: &mut CpuMatrix,
) {
    let n_inner = a.n_cols();
    threads.row_chunks(out.values_mut(), b.n_cols, CHUNK_ROWS, |first, rows| {
        let n_rows = rows.len() / b.n_cols;
        let a_rows = &a.values()[first * n_inner..(first + n_rows) * n_inner];
        let a_view = View { n_rows, ..View::rows(a_rows, n_inner) };
        let each_row = |rows: &mut [f32], work: fn(&[f32], &mut [f32])| {
            if let Some(bias) = around.bias {
                rows.chunks_exact_mut(b.n_cols).for_each(|row| work(bias, row));
            }
        };
        match around.mode {
            // The product then adds to rows that it finds in a cache, where it would wait for them.
            Mode::Assign if around.bias.is_some() => {
                each_row(rows, |bias, row| row.copy_from_slice(bias));
                product(a_view, b, Mode::Add, rows);
            }
            mode => {
                product(a_view, b, mode, rows);
                each_row(rows, |bias, row| add_scaled(1.0, bias, row));
            }
        }
        if let Some(factors) = around.factors {
            for (row, values) in (first..).zip(rows.chunks_exact_mut(b.n_cols)) {
                scale(factors[row], values);
            }
        }
    });
}

/// A matrix as a factor that lies in rows.
fn lying(x: &CpuMatrix) -> View<'_> {
    View { n_rows: x.n_rows(), ..View::rows(x.values(), x.n_cols()) }
}

pub(super) fn matmul(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    rows_times(cpu, a, lying(b), Around::nothing(mode), out);
}

pub(super) fn matmul_bias(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    bias: &CpuMatrix,
    out: &mut CpuMatrix,
) {
    assert_eq!(bias.shape(), (1, b.n_cols()), "shape of a bias");
    let around = Around { bias: Some(bias.values()), ..Around::nothing(mode) };
    rows_times(cpu, a, lying(b), around, out);
}

pub(super) fn matmul_nt(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    rows_times(cpu, a, lying(b).transposed(), Around::nothing(mode), out);
}

pub(super) fn matmul_nt_scaled(
    cpu: &CpuBackend,
    a: &CpuMatrix,
    b: &CpuMatrix,
    factors: &CpuMatrix,
) -> CpuMatrix {
    assert_eq!(factors.shape(), (a.n_rows(), 1), "shape of row factors");
    let mut out = CpuMatrix::to_assign(&cpu.pool, a.n_rows(), b.n_rows());
    let around = Around { factors: Some(factors.values()), ..Around::nothing(Mode::Assign) };
    rows_times(cpu, a, lying(b).transposed(), around, &mut out);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::pool::Pool;

    fn filled(pool: &Pool, n_rows: usize, n_cols: usize) -> CpuMatrix {
        let values: Vec<f32> =
            (0..n_rows * n_cols).map(|at| (at * 7919 % 1009) as f32 / 504.0 - 1.0).collect();
        CpuMatrix::from_values(pool, n_rows, n_cols, &values)
    }

    /// A sum is one chain of multiply-adds in the order of the inner dimension, whatever tile or chunk it is in.
    fn plain(a: &CpuMatrix, b: View<'_>, around: Around<'_>, out: &mut CpuMatrix) {
        for row in 0..a.n_rows() {
            for column in 0..b.n_cols {
                let kept = if around.mode == Mode::Add { out.row(row)[column] } else { 0.0 };
                let add =
                    |sum, inner: usize| a.row(row)[inner].mul_add(b.value(inner, column), sum);
                let sum = (0..b.n_rows).fold(kept, add);
                let sum = around.bias.map_or(sum, |bias| sum + bias[column]);
                let factor = around.factors.map_or(1.0, |factors| factors[row]);
                out.values_mut()[row * b.n_cols + column] = factor * sum;
            }
        }
    }

    const SHAPES: [(usize, usize, usize); 13] = [
        (1, 1, 1),
        (5, 3, 7),
        (6, 8, 8),
        (7, 128, 9),
        (48, 20, 16),
        (49, 257, 47),
        (95, 256, 17),
        (961, 5, 24),
        (13, 600, 33),
        (12, 0, 20),
        (500, 300, 17),
        (0, 4, 4),
        (4, 4, 0),
    ];

    /// Every shape, with weights as they lie and transposed, and with everything around a product.
    fn each_case(mut check: impl FnMut(&CpuBackend, &CpuMatrix, View<'_>, Around<'_>, &str)) {
        let cpu = CpuBackend::new(3);
        for (n_rows, n_inner, n_cols) in SHAPES {
            let a = filled(&cpu.pool, n_rows, n_inner);
            let (b, b_t) = (filled(&cpu.pool, n_inner, n_cols), filled(&cpu.pool, n_cols, n_inner));
            let (bias, factors) = (filled(&cpu.pool, 1, n_cols), filled(&cpu.pool, n_rows, 1));
            for (b, order) in [(lying(&b), "lying"), (lying(&b_t).transposed(), "transposed")] {
                for bits in 0..8 {
                    let around = Around {
                        mode: if bits & 1 != 0 { Mode::Add } else { Mode::Assign },
                        bias: (bits & 2 != 0).then(|| bias.values()),
                        factors: (bits & 4 != 0).then(|| factors.values()),
                    };
                    let what = format!("{n_rows} x {n_inner} x {n_cols}, {order}, case {bits}");
                    check(&cpu, &a, b, around, &what);
                }
            }
        }
    }

    #[test]
    fn panels_give_the_bits_of_plain_loops() {
        let Some(fma) = Fma::detect() else { return };
        each_case(|cpu, a, b, around, what| {
            let mut out = filled(&cpu.pool, a.n_rows(), b.n_cols);
            let mut expected = out.clone();
            by_panels(cpu, fma, (a, b), around, &mut out);
            plain(a, b, around, &mut expected);
            let bits = |x: &CpuMatrix| x.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&out), bits(&expected), "{what}");
        });
    }

    #[test]
    fn the_library_gives_what_plain_loops_give() {
        each_case(|cpu, a, b, around, what| {
            let mut out = filled(&cpu.pool, a.n_rows(), b.n_cols);
            let mut expected = out.clone();
            by_library(&cpu.threads, (a, b), around, &mut out);
            plain(a, b, around, &mut expected);
            let tolerance = 1e-5 * (1 + a.n_cols()) as f32;
            for (found, expected) in out.values().iter().zip(expected.values()) {
                assert!((found - expected).abs() <= tolerance, "{what}: {found} {expected}");
            }
        });
    }
}
