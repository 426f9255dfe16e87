//! Losses and the optimiser.

use super::row_wise::each_row;
use super::scatter::ascending_ranges;
use super::threads::{CHUNK_ROWS, Threads};
use super::{CpuMatrix, assert_same_shape};
use crate::operands::AdamStep;

/// Weights a chunk of an optimiser's step.
const CHUNK_VALUES: usize = 1 << 14;

/// Assigns the gradients of `rows` by `row_loss(i, dlogits of rows[i])`, zero to all others, and adds up
/// the losses in an order that does not depend on the threads.
fn sum_rows(
    threads: &Threads,
    rows: &[u32],
    dlogits: &mut CpuMatrix,
    row_loss: impl Fn(usize, &mut [f32]) -> f64 + Sync,
) -> f64 {
    each_row(threads, dlogits, |_, dlogits| dlogits.fill(0.0));
    let (n_rows, width) = dlogits.shape();
    let ranges = ascending_ranges(rows, CHUNK_ROWS, (n_rows, width), dlogits.values_mut());
    let partials = match ranges {
        Some(ranges) => threads.map_items(ranges, |range| {
            let rows = (range.first..).zip(range.rows);
            let losses = rows.map(|(i, &row)| {
                row_loss(i, &mut range.out[(row as usize - range.first_row) * width..][..width])
            });
            losses.sum::<f64>()
        }),
        // In any other order rows may occur twice, and the last has its way.
        None => {
            let rows = (0..).zip(rows.chunks(CHUNK_ROWS));
            let partials = rows.map(|(chunk, rows)| {
                let losses = (chunk * CHUNK_ROWS..).zip(rows).map(|(i, &row)| {
                    row_loss(i, &mut dlogits.values_mut()[row as usize * width..][..width])
                });
                losses.sum::<f64>()
            });
            partials.collect()
        }
    };
    partials.iter().sum()
}

pub(super) fn softmax_cross_entropy(
    threads: &Threads,
    logits: &CpuMatrix,
    (rows, classes): (&[u32], &[u32]),
    dlogits: &mut CpuMatrix,
) -> f64 {
    assert_eq!(rows.len(), classes.len(), "rows and classes of a loss");
    assert_same_shape(logits, dlogits);
    sum_rows(threads, rows, dlogits, |i, dlogits| {
        let logits = logits.row(rows[i] as usize);
        let class = classes[i] as usize;
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for (dlogit, &logit) in dlogits.iter_mut().zip(logits) {
            *dlogit = (logit - max).exp();
            sum += f64::from(*dlogit);
        }
        let share = (1.0 / sum) as f32;
        dlogits.iter_mut().for_each(|dlogit| *dlogit *= share);
        dlogits[class] -= 1.0;
        // Not `max + ln(sum)` first: a large `max` would swallow the logarithm.
        f64::from(max) - f64::from(logits[class]) + sum.ln()
    })
}

pub(super) fn binary_cross_entropy(
    threads: &Threads,
    logits: &CpuMatrix,
    (rows, targets): (&[u32], &CpuMatrix),
    dlogits: &mut CpuMatrix,
) -> f64 {
    assert_eq!((rows.len(), logits.n_cols()), targets.shape(), "targets");
    assert_same_shape(logits, dlogits);
    let share = 1.0 / logits.n_cols() as f64;
    sum_rows(threads, rows, dlogits, |i, dlogits| {
        let pairs = logits.row(rows[i] as usize).iter().zip(targets.row(i));
        let losses = dlogits.iter_mut().zip(pairs).map(|(dlogit, (&logit, &target))| {
            *dlogit = (1.0 / (1.0 + (-logit).exp()) - target) * share as f32;
            let logit = f64::from(logit);
            logit.max(0.0) - logit * f64::from(target) + (-logit.abs()).exp().ln_1p()
        });
        losses.sum::<f64>() * share
    })
}

pub(super) fn adam(
    threads: &Threads,
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
    let moments = first.values_mut().chunks_mut(CHUNK_VALUES);
    let moments = moments.zip(second.values_mut().chunks_mut(CHUNK_VALUES));
    let weights = weights.values_mut().chunks_mut(CHUNK_VALUES);
    let chunks = weights.zip(gradient.values().chunks(CHUNK_VALUES)).zip(moments);
    threads.each(chunks.collect(), |_, ((weights, gradient), (first, second))| {
        let moments = first.iter_mut().zip(second);
        for ((m, v), (weight, &gradient)) in moments.zip(weights.iter_mut().zip(gradient)) {
            let gradient = gradient + step.weight_decay * *weight;
            *m = step.beta1 * *m + (1.0 - step.beta1) * gradient;
            *v = step.beta2 * *v + (1.0 - step.beta2) * gradient * gradient;
            *weight -= step_size * *m / (v.sqrt() / root2 + step.epsilon);
        }
    });
}
