//! Work on one row at a time: sums of columns, dropout.

use sylvie_random::Family;

use super::kernels::{Mask, add_scaled, drop_row, drop_row_of, drop_sparse_row};
use super::sparse::CpuSparse;
use super::threads::{CHUNK_ROWS, Threads};
use super::{CpuBackend, CpuMatrix};
use crate::operands::Mode;

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

pub(super) fn dropped(
    cpu: &CpuBackend,
    rate: f32,
    draws: Family,
    keys: &[u32],
    x: &CpuMatrix,
) -> CpuMatrix {
    assert_eq!(keys.len(), x.n_rows(), "keys and rows of dropout");
    let mask = Mask::new(rate, draws);
    let mut out = CpuMatrix::to_assign(&cpu.pool, x.n_rows(), x.n_cols());
    each_row(&cpu.threads, &mut out, |row, values| {
        drop_row_of(mask, keys[row], x.row(row), values);
    });
    out
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
