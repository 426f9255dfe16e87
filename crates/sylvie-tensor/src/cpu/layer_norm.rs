//! LayerNorm of rows, alone and with the ReLU that follows it.

use super::kernels::{
    add_scaled, affine_relu, affine_relu_backward, normalise, normalise_backward, relu,
};
use super::row_wise::each_row;
use super::threads::{CHUNK_ROWS, Threads};
use super::{CpuBackend, CpuMatrix, assert_same_shape};

/// Added to the variance.
const EPSILON: f32 = 1e-5;
/// Rows summed into one partial sum; partial sums are added in order.
const PARTIAL_ROWS: usize = 4096;

pub(super) fn forward(
    cpu: &CpuBackend,
    gain: &CpuMatrix,
    offset: &CpuMatrix,
    x: &mut CpuMatrix,
) -> (CpuMatrix, CpuMatrix) {
    forward_then(cpu, (gain, offset), x, |_| ())
}

pub(super) fn forward_relu(
    cpu: &CpuBackend,
    gain: &CpuMatrix,
    offset: &CpuMatrix,
    x: &mut CpuMatrix,
) -> (CpuMatrix, CpuMatrix) {
    forward_then(cpu, (gain, offset), x, relu)
}

/// Normalises each row, and does `then` to it while it is in a cache.
fn forward_then(
    cpu: &CpuBackend,
    (gain, offset): (&CpuMatrix, &CpuMatrix),
    x: &mut CpuMatrix,
    then: impl Fn(&mut [f32]) + Sync,
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
    let affine = (gain.values(), offset.values());
    cpu.threads.each(chunks.collect(), |_, ((x, normalised), inverse)| {
        let rows = x.chunks_exact_mut(width).zip(normalised.chunks_exact_mut(width));
        for ((x, normalised), inverse) in rows.zip(inverse) {
            *inverse = normalise(affine, EPSILON, x, normalised);
            then(x);
        }
    });
    (normalised, inverse)
}

pub(super) fn backward(
    threads: &Threads,
    gain: &CpuMatrix,
    saved: (&CpuMatrix, &CpuMatrix),
    dy: &mut CpuMatrix,
    grads: (&mut CpuMatrix, &mut CpuMatrix),
) {
    backward_after(threads, gain, saved, dy, grads, |_, _| ());
}

pub(super) fn backward_relu(
    threads: &Threads,
    (gain, offset): (&CpuMatrix, &CpuMatrix),
    saved: (&CpuMatrix, &CpuMatrix),
    dy: &mut CpuMatrix,
    grads: (&mut CpuMatrix, &mut CpuMatrix),
) {
    assert_eq!(offset.shape(), (1, dy.n_cols()), "shape of an offset");
    let affine = (gain.values(), offset.values());
    backward_after(threads, gain, saved, dy, grads, |row, dy| {
        affine_relu_backward(affine, saved.0.row(row), dy);
    });
}

/// What [`forward_relu`] left, from its normalised rows.
pub(super) fn again(
    cpu: &CpuBackend,
    (gain, offset): (&CpuMatrix, &CpuMatrix),
    x: &CpuMatrix,
) -> CpuMatrix {
    let (n_rows, width) = x.shape();
    assert_eq!(gain.shape(), (1, width), "shape of a gain");
    assert_eq!(offset.shape(), (1, width), "shape of an offset");
    let mut y = CpuMatrix::to_assign(&cpu.pool, n_rows, width);
    let affine = (gain.values(), offset.values());
    each_row(&cpu.threads, &mut y, |row, y| affine_relu(affine, x.row(row), y));
    y
}

/// Goes back through each row after `before` was done to its gradient.
fn backward_after(
    threads: &Threads,
    gain: &CpuMatrix,
    (normalised, inverse): (&CpuMatrix, &CpuMatrix),
    dy: &mut CpuMatrix,
    (dgain, doffset): (&mut CpuMatrix, &mut CpuMatrix),
    before: impl Fn(usize, &mut [f32]) + Sync,
) {
    let width = dy.n_cols();
    assert_same_shape(normalised, dy);
    assert_eq!((inverse.n_rows(), inverse.n_cols()), (dy.n_rows(), 1), "inverse deviations");
    assert_eq!((gain.n_rows(), gain.n_cols()), (1, width), "shape of a gain");
    assert_eq!((dgain.n_rows(), dgain.n_cols()), (1, width), "shape of a gain's gradient");
    assert_eq!((doffset.n_rows(), doffset.n_cols()), (1, width), "shape of an offset's gradient");
    dgain.values_mut().fill(0.0);
    doffset.values_mut().fill(0.0);
    if width == 0 {
        return;
    }
    let chunks = dy.values_mut().chunks_mut(PARTIAL_ROWS * width).enumerate().collect();
    let partials = threads.map_items(chunks, |(chunk, rows)| {
        let mut partial = (vec![0.0; width], vec![0.0; width]);
        for (row, dy) in (chunk * PARTIAL_ROWS..).zip(rows.chunks_exact_mut(width)) {
            before(row, dy);
            let saved = (normalised.row(row), inverse.values()[row]);
            normalise_backward(gain.values(), saved, dy, (&mut partial.0, &mut partial.1));
        }
        partial
    });
    for (gain, offset) in partials {
        add_scaled(1.0, &gain, dgain.values_mut());
        add_scaled(1.0, &offset, doffset.values_mut());
    }
}
