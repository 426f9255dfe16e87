//! Losses and the optimiser.
#![allow(unsafe_code)]

use sylvie_device::{Arg, Device, Memory};
use sylvie_kernels::{
    ADAM, BINARY_CROSS_ENTROPY, Kernel, SOFTMAX_CROSS_ENTROPY, SUM_F64, SUM_VALUES,
};
use sylvie_tensor::AdamStep;

use crate::matrix::assert_same_shape;
use crate::row_wise::launch;
use crate::{CudaIndex, CudaMatrix, count, done};

/// Assigns the gradients of `rows`, zero to all others, and sums the losses.
fn sum_rows(
    kernel: &'static Kernel,
    logits: &CudaMatrix,
    rows: &CudaIndex,
    expected: &Memory,
    dlogits: &mut CudaMatrix,
) -> f64 {
    assert_same_shape(logits, dlogits);
    rows.assert_below(logits.n_rows(), "rows of a loss");
    dlogits.fill_with_zeros();
    let device = logits.memory.device();
    let n_listed = rows.len();
    if n_listed == 0 || logits.n_cols() == 0 {
        return 0.0;
    }
    let mut losses = done(device.allocate(n_listed * size_of::<f64>()));
    let mut args = [
        Arg::Read(&logits.memory),
        Arg::Read(&rows.memory),
        Arg::Read(expected),
        Arg::Write(&mut dlogits.memory),
        Arg::Write(&mut losses),
        Arg::U32(count(n_listed)),
        Arg::U32(count(logits.n_cols())),
    ];
    // SAFETY: rows lie inside of the matrices, whose shapes are alike (asserted); what is expected was held
    // against the number of rows by the caller; there is a loss a row.
    unsafe { launch(device, kernel, (n_listed, logits.n_cols()), &mut args) };
    sum(device, losses, n_listed)
}

/// The sum of `n` values, in an order that depends on `n` alone.
fn sum(device: &Device, mut values: Memory, mut n: usize) -> f64 {
    while n > 1 {
        let n_sums = n.div_ceil(SUM_VALUES as usize);
        let mut sums = done(device.allocate(n_sums * size_of::<f64>()));
        let mut args = [Arg::Read(&values), Arg::Write(&mut sums), Arg::U64(n as u64)];
        // SAFETY: `n` values, and a sum for each piece of them.
        unsafe { launch(device, &SUM_F64, (1, n), &mut args) };
        (values, n) = (sums, n_sums);
    }
    let mut bytes = [0; size_of::<f64>()];
    done(device.read(&values, &mut bytes));
    f64::from_le_bytes(bytes)
}

pub(crate) fn softmax_cross_entropy(
    logits: &CudaMatrix,
    rows: &CudaIndex,
    classes: &CudaIndex,
    dlogits: &mut CudaMatrix,
) -> f64 {
    assert_eq!(rows.len(), classes.len(), "rows and classes of a loss");
    classes.assert_below(logits.n_cols(), "classes of a loss");
    sum_rows(&SOFTMAX_CROSS_ENTROPY, logits, rows, &classes.memory, dlogits)
}

pub(crate) fn binary_cross_entropy(
    logits: &CudaMatrix,
    rows: &CudaIndex,
    targets: &CudaMatrix,
    dlogits: &mut CudaMatrix,
) -> f64 {
    assert_eq!((rows.len(), logits.n_cols()), targets.shape(), "targets");
    sum_rows(&BINARY_CROSS_ENTROPY, logits, rows, &targets.memory, dlogits)
}

pub(crate) fn adam(
    step: &AdamStep,
    gradient: &CudaMatrix,
    (first, second): (&mut CudaMatrix, &mut CudaMatrix),
    weights: &mut CudaMatrix,
) {
    assert!(step.step > 0, "Adam's steps count from 1, not {}", step.step);
    for matrix in [gradient, &*first, &*second] {
        assert_same_shape(matrix, weights);
    }
    let correction1 = 1.0 - f64::from(step.beta1).powi(step.step as i32);
    let correction2 = 1.0 - f64::from(step.beta2).powi(step.step as i32);
    let n_values = gradient.n_values();
    let mut args = [
        Arg::Read(&gradient.memory),
        Arg::Write(&mut first.memory),
        Arg::Write(&mut second.memory),
        Arg::Write(&mut weights.memory),
        Arg::U64(n_values as u64),
        Arg::F32(step.beta1),
        Arg::F32(step.beta2),
        Arg::F32((f64::from(step.learning_rate) / correction1) as f32),
        Arg::F32(correction2.sqrt() as f32),
        Arg::F32(step.epsilon),
        Arg::F32(step.weight_decay),
    ];
    // SAFETY: shapes alike (asserted).
    unsafe { launch(gradient.memory.device(), &ADAM, (1, n_values), &mut args) };
}
