//! Work on one row at a time: bias, LayerNorm, ReLU, dropout.

use sylvie_random::Family;

use super::kernels::{Mask, add_scaled, dot, drop_row, drop_sparse_row, sum};
use super::sparse::CpuSparse;
use super::threads::{CHUNK_ROWS, Threads};
use super::{CpuBackend, CpuMatrix, assert_same_shape};
use crate::backend::Mode;

/// Added to the variance in LayerNorm.
const EPSILON: f32 = 1e-5;
/// Rows summed into one partial sum; partial sums are added in order.
const PARTIAL_ROWS: usize = 4096;

pub(super) fn each_row(
    threads: &Threads,
    x: &mut CpuMatrix,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    let width = x.n_cols();
    threads.row_chunks(x.values_mut(), width, CHUNK_ROWS, |first, rows| {
        for (row, values) in rows.chunks_exact_mut(width).enumerate() {
            work(first + row, values);
        }
    });
}

pub(super) fn column_sums(threads: &Threads, x: &CpuMatrix, mode: Mode, out: &mut CpuMatrix) {
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
    cpu: &CpuBackend,
    gain: &CpuMatrix,
    offset: &CpuMatrix,
    x: &mut CpuMatrix,
) -> (CpuMatrix, CpuMatrix) {
    let (n_rows, width) = x.shape();
    assert_eq!(gain.shape(), (1, width), "shape of a gain");
    assert_eq!(offset.shape(), (1, width), "shape of an offset");
    let mut normalised = CpuMatrix::to_assign(&cpu.pool, n_rows, width);
    let mut inverse = CpuMatrix::to_assign(&cpu.pool, n_rows, 1);
    if width == 0 {
        inverse.values_mut().fill(0.0);
        return (normalised, inverse);
    }
    let size = CHUNK_ROWS * width;
    let chunks = x.values_mut().chunks_mut(size).zip(normalised.values_mut().chunks_mut(size));
    let chunks = chunks.zip(inverse.values_mut().chunks_mut(CHUNK_ROWS));
    cpu.threads.each(chunks.collect(), |_, ((x, normalised), inverse)| {
        let rows = x.chunks_exact_mut(width).zip(normalised.chunks_exact_mut(width));
        for ((x, normalised), inverse) in rows.zip(inverse) {
            let mean = sum(x) / width as f32;
            for (value, &x) in normalised.iter_mut().zip(&*x) {
                *value = x - mean;
            }
            *inverse = 1.0 / (dot(normalised, normalised) / width as f32 + EPSILON).sqrt();
            let affine = gain.values().iter().zip(offset.values());
            for ((x, value), (&gain, &offset)) in x.iter_mut().zip(normalised).zip(affine) {
                *value *= *inverse;
                *x = *value * gain + offset;
            }
        }
    });
    (normalised, inverse)
}

pub(super) fn layer_norm_backward(
    threads: &Threads,
    gain: &CpuMatrix,
    (normalised, inverse): (&CpuMatrix, &CpuMatrix),
    dy: &mut CpuMatrix,
    dgain: &mut CpuMatrix,
    doffset: &mut CpuMatrix,
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
    x: &mut CpuMatrix,
) {
    assert_eq!(keys.len(), x.n_rows(), "keys and rows of dropout");
    let mask = Mask::new(rate, draws);
    each_row(threads, x, |row, values| drop_row(mask, keys[row], values));
}

pub(super) fn sparse_dropout(
    cpu: &CpuBackend,
    rate: f32,
    draws: Family,
    keys: &[u32],
    x: &CpuSparse,
) -> CpuSparse {
    let structure = &*x.structure;
    assert_eq!(keys.len(), structure.n_rows, "keys and rows of dropout");
    let mask = Mask::new(rate, draws);
    let mut dropped = CpuMatrix::to_assign(&cpu.pool, 1, x.values.values().len());
    let mut rest = dropped.values_mut();
    let mut chunks = Vec::with_capacity(keys.len().div_ceil(CHUNK_ROWS));
    for (index, keys) in keys.chunks(CHUNK_ROWS).enumerate() {
        let first = index * CHUNK_ROWS;
        let n_values = structure.indptr[first + keys.len()] - structure.indptr[first];
        let (values, others) = rest.split_at_mut(n_values as usize);
        chunks.push((first, keys, values));
        rest = others;
    }
    cpu.threads.each(chunks, |_, (first, keys, mut out)| {
        for (row, &key) in (first..).zip(keys) {
            let places = structure.indptr[row] as usize..structure.indptr[row + 1] as usize;
            let (values, others) = out.split_at_mut(places.len());
            let columns = &structure.indices[places.clone()];
            drop_sparse_row(mask, key, columns, &x.values.values()[places], values);
            out = others;
        }
    });
    CpuSparse { structure: x.structure.clone(), values: dropped }
}
