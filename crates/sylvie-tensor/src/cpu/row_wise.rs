//! Work on one row at a time: bias, LayerNorm, ReLU, dropout.

use sylvie_graph::DenseMatrix;
use sylvie_random::Family;

use super::kernels::{Mask, add_scaled, dot, drop_row, drop_sparse_row, sum};
use super::sparse::CpuSparse;
use super::threads::{CHUNK_ROWS, Threads};
use super::{assert_same_shape, zeros};
use crate::backend::Mode;

/// Added to the variance in LayerNorm.
const EPSILON: f32 = 1e-5;
/// Rows summed into one partial sum; partial sums are added in order.
const PARTIAL_ROWS: usize = 4096;

pub(super) fn each_row(
    threads: &Threads,
    x: &mut DenseMatrix,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    let width = x.n_cols();
    threads.row_chunks(x.values_mut(), width, CHUNK_ROWS, |first, rows| {
        for (row, values) in rows.chunks_exact_mut(width).enumerate() {
            work(first + row, values);
        }
    });
}

pub(super) fn column_sums(threads: &Threads, x: &DenseMatrix, mode: Mode, out: &mut DenseMatrix) {
    assert_eq!((out.n_rows(), out.n_cols()), (1, x.n_cols()), "shape of column sums");
    if mode == Mode::Assign {
        out.values_mut().fill(0.0);
    }
    for partial in row_sums(threads, x.n_rows(), x.n_cols(), |row, sums| {
        add_scaled(1.0, x.row(row), sums);
    }) {
        add_scaled(1.0, &partial, out.values_mut());
    }
}

/// Sums over fixed ranges of rows, to be added in order.
fn row_sums(
    threads: &Threads,
    n_rows: usize,
    width: usize,
    add_row: impl Fn(usize, &mut [f32]) + Sync,
) -> Vec<Vec<f32>> {
    threads.map(n_rows.div_ceil(PARTIAL_ROWS), |chunk| {
        let mut sums = vec![0.0; width];
        for row in chunk * PARTIAL_ROWS..((chunk + 1) * PARTIAL_ROWS).min(n_rows) {
            add_row(row, &mut sums);
        }
        sums
    })
}

pub(super) fn layer_norm(
    threads: &Threads,
    gain: &DenseMatrix,
    offset: &DenseMatrix,
    x: &mut DenseMatrix,
) -> (DenseMatrix, DenseMatrix) {
    let (n_rows, width) = (x.n_rows(), x.n_cols());
    assert_eq!((gain.n_rows(), gain.n_cols()), (1, width), "shape of a gain");
    assert_eq!((offset.n_rows(), offset.n_cols()), (1, width), "shape of an offset");
    let mut normalised = x.clone();
    let mut inverse = zeros(n_rows, 1);
    threads.row_chunks2(
        (normalised.values_mut(), width),
        (inverse.values_mut(), 1),
        CHUNK_ROWS,
        |_, rows, inverse| {
            for (values, inverse) in rows.chunks_exact_mut(width).zip(inverse) {
                let mean = sum(values) / width as f32;
                values.iter_mut().for_each(|value| *value -= mean);
                *inverse = 1.0 / (dot(values, values) / width as f32 + EPSILON).sqrt();
                values.iter_mut().for_each(|value| *value *= *inverse);
            }
        },
    );
    each_row(threads, x, |row, out| {
        let affine = gain.values().iter().zip(offset.values());
        for ((out, &value), (&gain, &offset)) in out.iter_mut().zip(normalised.row(row)).zip(affine)
        {
            *out = value * gain + offset;
        }
    });
    (normalised, inverse)
}

pub(super) fn layer_norm_backward(
    threads: &Threads,
    gain: &DenseMatrix,
    (normalised, inverse): (&DenseMatrix, &DenseMatrix),
    dy: &mut DenseMatrix,
    dgain: &mut DenseMatrix,
    doffset: &mut DenseMatrix,
) {
    let width = dy.n_cols();
    assert_same_shape(normalised, dy);
    assert_eq!((inverse.n_rows(), inverse.n_cols()), (dy.n_rows(), 1), "inverse deviations");
    assert_eq!((gain.n_rows(), gain.n_cols()), (1, width), "shape of a gain");
    assert_eq!((dgain.n_rows(), dgain.n_cols()), (1, width), "shape of a gain's gradient");
    column_sums(threads, dy, Mode::Assign, doffset);
    dgain.values_mut().fill(0.0);
    for partial in row_sums(threads, dy.n_rows(), width, |row, sums| {
        let pairs = dy.row(row).iter().zip(normalised.row(row));
        for (sum, (&dy, &value)) in sums.iter_mut().zip(pairs) {
            *sum += dy * value;
        }
    }) {
        add_scaled(1.0, &partial, dgain.values_mut());
    }
    each_row(threads, dy, |row, dy| {
        let normalised = normalised.row(row);
        for (dy, &gain) in dy.iter_mut().zip(gain.values()) {
            *dy *= gain;
        }
        let mean = sum(dy) / width as f32;
        let projection = dot(dy, normalised) / width as f32;
        let inverse = inverse.values()[row];
        for (dy, &value) in dy.iter_mut().zip(normalised) {
            *dy = (*dy - mean - value * projection) * inverse;
        }
    });
}

pub(super) fn dropout(
    threads: &Threads,
    rate: f32,
    draws: Family,
    keys: &[u32],
    x: &mut DenseMatrix,
) {
    assert_eq!(keys.len(), x.n_rows(), "keys and rows of dropout");
    let mask = Mask::new(rate, draws);
    each_row(threads, x, |row, values| drop_row(mask, keys[row], values));
}

pub(super) fn sparse_dropout(
    threads: &Threads,
    rate: f32,
    draws: Family,
    keys: &[u32],
    x: &CpuSparse,
) -> CpuSparse {
    let structure = &*x.structure;
    assert_eq!(keys.len(), structure.n_rows, "keys and rows of dropout");
    let mask = Mask::new(rate, draws);
    let rows = threads.map(structure.n_rows.div_ceil(CHUNK_ROWS), |chunk| {
        let last = ((chunk + 1) * CHUNK_ROWS).min(structure.n_rows);
        let mut values = Vec::new();
        for (row, &key) in (chunk * CHUNK_ROWS..last).zip(&keys[chunk * CHUNK_ROWS..last]) {
            let places = structure.indptr[row] as usize..structure.indptr[row + 1] as usize;
            let columns = &structure.indices[places.clone()];
            drop_sparse_row(mask, key, columns, &x.values[places], &mut values);
        }
        values
    });
    CpuSparse { structure: x.structure.clone(), values: rows.concat() }
}
