//! Losses against f64, and their gradients against slopes.

use proptest::prelude::*;
use sylvie_tensor::Backend;

use crate::{Matrix, assert_close, backend, integers, matrix, real_matrix, row_counts, sequence};

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn cross_entropy(logits: &[f64], class: usize) -> f64 {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max - logits[class] + logits.iter().map(|v| (v - max).exp()).sum::<f64>().ln()
}

fn binary_cross_entropy(logits: &[f64], targets: &[f64]) -> f64 {
    let entry = |(&logit, &target): (&f64, &f64)| {
        logit.max(0.0) - logit * target + (-logit.abs()).exp().ln_1p()
    };
    logits.iter().zip(targets).map(entry).sum::<f64>() / logits.len() as f64
}

/// The slope of `loss` at `logits`, by central differences in f64.
fn slopes(logits: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let slope = |place: usize| {
        let (mut up, mut down) = (logits.to_vec(), logits.to_vec());
        up[place] += step;
        down[place] -= step;
        (loss(&up) - loss(&down)) / (2.0 * step)
    };
    (0..logits.len()).map(slope).collect()
}

/// Some rows of `n`, in no order, each at most once.
fn some_rows(seed: u64, n: usize) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..n as u32).collect();
    let mut sequence = sequence(seed);
    sequence.shuffle(&mut rows);
    rows.truncate(n * 2 / 3);
    rows
}

fn garbage(like: &Matrix) -> Matrix {
    matrix(like.n_rows(), like.n_cols(), &vec![f32::NAN; like.values().len()])
}

fn assert_loss(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-6 * (1.0 + expected), "{found}, not {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn softmax(seed in 0..u64::MAX - 8, n in row_counts(), width in 1..9_usize) {
        let logits = real_matrix(seed, n, width);
        let rows = some_rows(seed + 1, n);
        let mut sequence = sequence(seed + 2);
        let classes: Vec<u32> = rows.iter().map(|_| sequence.below(width as u32)).collect();
        let mut dlogits = garbage(&logits);
        let loss = backend().softmax_cross_entropy(&logits, &rows, &classes, &mut dlogits);

        let mut gradient = vec![0.0; n * width];
        let mut sum = 0.0;
        for (&row, &class) in rows.iter().zip(&classes) {
            let row = row as usize;
            let logits = wide(logits.row(row));
            sum += cross_entropy(&logits, class as usize);
            let slopes = slopes(&logits, |logits| cross_entropy(logits, class as usize));
            gradient[row * width..(row + 1) * width].copy_from_slice(&slopes);
        }
        assert_loss(loss, sum);
        assert_close(dlogits.values(), &gradient, 1e-6, "gradients");
    }

    #[test]
    fn binary(seed in 0..u64::MAX - 8, n in row_counts(), width in 1..9_usize) {
        let logits = real_matrix(seed, n, width);
        let rows = some_rows(seed + 1, n);
        let targets: Vec<f32> =
            integers(seed + 2, rows.len() * width).iter().map(|v| f32::from(*v > 0.0)).collect();
        let targets = matrix(rows.len(), width, &targets);
        let mut dlogits = garbage(&logits);
        let loss = backend().binary_cross_entropy(&logits, &rows, &targets, &mut dlogits);

        let mut gradient = vec![0.0; n * width];
        let mut sum = 0.0;
        for (i, &row) in rows.iter().enumerate() {
            let row = row as usize;
            let (logits, targets) = (wide(logits.row(row)), wide(targets.row(i)));
            sum += binary_cross_entropy(&logits, &targets);
            let slopes = slopes(&logits, |logits| binary_cross_entropy(logits, &targets));
            gradient[row * width..(row + 1) * width].copy_from_slice(&slopes);
        }
        assert_loss(loss, sum);
        assert_close(dlogits.values(), &gradient, 1e-6, "gradients");
    }
}

#[test]
fn softmax_of_huge_logits() {
    let third = 1.0 / 3.0;
    for huge in [1e4, 1e8, 1e30] {
        let logits = matrix(
            4,
            3,
            &[huge, huge, huge, huge, -huge, 0.0, -huge, -huge, huge, -huge, -huge, -huge],
        );
        let mut dlogits = garbage(&logits);
        let loss = backend().softmax_cross_entropy(
            &logits,
            &vec![0, 1, 2, 3],
            &vec![0, 0, 0, 1],
            &mut dlogits,
        );
        let expected = 2.0 * 3.0_f64.ln() + 2.0 * f64::from(huge);
        assert!((loss - expected).abs() <= 1e-7 * expected, "{loss} at {huge}");
        let gradients =
            [[third - 1.0, third, third], [0.0; 3], [-1.0, 0.0, 1.0], [third, third - 1.0, third]];
        assert_close(dlogits.values(), gradients.as_flattened(), 1e-6, "gradients");
    }
}

#[test]
fn binary_of_huge_logits() {
    for huge in [1e4, 1e30] {
        let logits = matrix(1, 4, &[huge, huge, -huge, -huge]);
        let targets = matrix(1, 4, &[1.0, 0.0, 1.0, 0.0]);
        let mut dlogits = garbage(&logits);
        let loss = backend().binary_cross_entropy(&logits, &vec![0], &targets, &mut dlogits);
        assert_loss(loss / f64::from(huge), 0.5);
        assert_eq!(dlogits.values(), [0.0, 0.25, -0.25, 0.0]);
    }
}

#[test]
fn a_logit_that_is_no_number_is_seen() {
    let logits = matrix(1, 3, &[0.0, f32::NAN, 1.0]);
    let mut dlogits = garbage(&logits);
    assert!(backend().softmax_cross_entropy(&logits, &vec![0], &vec![0], &mut dlogits).is_nan());
    let targets = matrix(1, 3, &[0.0; 3]);
    assert!(backend().binary_cross_entropy(&logits, &vec![0], &targets, &mut dlogits).is_nan());
}

#[test]
fn no_rows_no_loss() {
    let logits = real_matrix(1, 3, 2);
    let mut dlogits = garbage(&logits);
    assert_eq!(backend().softmax_cross_entropy(&logits, &vec![], &vec![], &mut dlogits), 0.0);
    assert_eq!(dlogits.values(), [0.0; 6]);
    let targets = matrix(0, 2, &[]);
    assert_eq!(backend().binary_cross_entropy(&logits, &vec![], &targets, &mut dlogits), 0.0);
}
