//! Losses and the optimiser.

use super::threads::{CHUNK_ROWS, Threads};
use super::{CpuMatrix, assert_same_shape};
use crate::backend::AdamStep;

/// Adds up `row_loss(i)` over `0..n` in an order that does not depend on the threads.
fn sum_rows(threads: &Threads, n: usize, row_loss: impl Fn(usize) -> f64 + Sync) -> f64 {
    let partials = threads.map(n.div_ceil(CHUNK_ROWS), |chunk| {
        let last = ((chunk + 1) * CHUNK_ROWS).min(n);
        (chunk * CHUNK_ROWS..last).map(&row_loss).sum::<f64>()
    });
    partials.iter().sum()
}

/// Largest value `max` of a row, and the sum of `exp(value - max)`.
///
/// The two are kept apart: in `max + ln(sum)` a large `max` would swallow the sum.
fn softmax_statistics(row: &[f32]) -> (f32, f64) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (max, row.iter().map(|&value| f64::from((value - max).exp())).sum())
}

pub(super) fn softmax_cross_entropy(
    threads: &Threads,
    logits: &CpuMatrix,
    (rows, classes): (&[u32], &[u32]),
    dlogits: &mut CpuMatrix,
) -> f64 {
    assert_eq!(rows.len(), classes.len(), "rows and classes of a loss");
    assert_same_shape(logits, dlogits);
    let width = logits.n_cols();
    dlogits.values_mut().fill(0.0);
    let loss = sum_rows(threads, rows.len(), |i| {
        let logits = logits.row(rows[i] as usize);
        let (max, sum) = softmax_statistics(logits);
        f64::from(max) - f64::from(logits[classes[i] as usize]) + sum.ln()
    });
    for (&row, &class) in rows.iter().zip(classes) {
        let logits = logits.row(row as usize);
        let (max, sum) = softmax_statistics(logits);
        let share = (1.0 / sum) as f32;
        let dlogits = &mut dlogits.values_mut()[row as usize * width..][..width];
        for (dlogit, &logit) in dlogits.iter_mut().zip(logits) {
            *dlogit = (logit - max).exp() * share;
        }
        dlogits[class as usize] -= 1.0;
    }
    loss
}

pub(super) fn binary_cross_entropy(
    threads: &Threads,
    logits: &CpuMatrix,
    (rows, targets): (&[u32], &CpuMatrix),
    dlogits: &mut CpuMatrix,
) -> f64 {
    assert_eq!((rows.len(), logits.n_cols()), (targets.n_rows(), targets.n_cols()), "targets");
    assert_same_shape(logits, dlogits);
    let width = logits.n_cols();
    let share = 1.0 / width as f64;
    dlogits.values_mut().fill(0.0);
    let loss = sum_rows(threads, rows.len(), |i| {
        let pairs = logits.row(rows[i] as usize).iter().zip(targets.row(i));
        let sum: f64 = pairs
            .map(|(&logit, &target)| {
                let logit = f64::from(logit);
                logit.max(0.0) - logit * f64::from(target) + (-logit.abs()).exp().ln_1p()
            })
            .sum();
        sum * share
    });
    for (i, &row) in rows.iter().enumerate() {
        let dlogits = &mut dlogits.values_mut()[row as usize * width..][..width];
        let pairs = logits.row(row as usize).iter().zip(targets.row(i));
        for (dlogit, (&logit, &target)) in dlogits.iter_mut().zip(pairs) {
            *dlogit = (1.0 / (1.0 + (-logit).exp()) - target) * share as f32;
        }
    }
    loss
}

pub(super) fn adam(
    step: &AdamStep,
    gradient: &CpuMatrix,
    (first, second): (&mut CpuMatrix, &mut CpuMatrix),
    weights: &mut CpuMatrix,
) {
    assert!(step.step > 0, "Adam's steps count from 1, not {}", step.step);
    for matrix in [gradient, &*first, &*second] {
        assert_same_shape(matrix, weights);
    }
    let correction1 = 1.0 - f64::from(step.beta1).powi(step.step as i32);
    let correction2 = 1.0 - f64::from(step.beta2).powi(step.step as i32);
    let step_size = (f64::from(step.learning_rate) / correction1) as f32;
    let root2 = correction2.sqrt() as f32;
    let moments = first.values_mut().iter_mut().zip(second.values_mut());
    let weights = weights.values_mut().iter_mut().zip(gradient.values());
    for ((m, v), (weight, &gradient)) in moments.zip(weights) {
        let gradient = gradient + step.weight_decay * *weight;
        *m = step.beta1 * *m + (1.0 - step.beta1) * gradient;
        *v = step.beta2 * *v + (1.0 - step.beta2) * gradient * gradient;
        *weight -= step_size * *m / (v.sqrt() / root2 + step.epsilon);
    }
}
