//! Losses over labelled rows.

use sylvie_gnn::{Targets, loss_and_gradient};
use sylvie_graph::{Labels, UNLABELLED};
use sylvie_tensor::{Backend, CpuBackend};

use crate::{Matrix, reals};

fn logits() -> Matrix {
    CpuBackend::new(1).upload(6, 3, &reals(1, 18))
}

/// Asserts loss and gradient of `rows`, given each row's own.
fn check(labels: &Labels, rows: &[u32], row_loss: impl Fn(&[f64], usize) -> (f64, Vec<f64>)) {
    let backend = CpuBackend::new(1);
    let logits = logits();
    let targets = Targets::new(&backend, labels, rows);
    let known: Vec<usize> =
        rows.iter().map(|&row| row as usize).filter(|&row| labels.is_labelled(row)).collect();
    assert_eq!(targets.n_rows(), known.len());
    let (loss, gradient) = loss_and_gradient(&backend, &logits, &targets);
    let mut sum = 0.0;
    let mut expected = vec![0.0; 18];
    for &row in &known {
        let values: Vec<f64> = logits.row(row).iter().map(|&v| f64::from(v)).collect();
        let (loss, gradient) = row_loss(&values, row);
        sum += loss;
        expected[row * 3..row * 3 + 3].copy_from_slice(&gradient);
    }
    assert!((loss - sum).abs() < 1e-6, "{loss} instead of {sum}");
    for (found, expected) in gradient.values().iter().zip(&expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} instead of {expected}");
    }
}

#[test]
fn cross_entropy_leaves_unlabelled_rows_out() {
    let classes = vec![0, UNLABELLED, 2, 1, UNLABELLED, 0];
    let labels = Labels::single(3, classes.clone()).expect("labels");
    let row_loss = |logits: &[f64], row: usize| {
        let class = classes[row] as usize;
        let sum: f64 = logits.iter().map(|v| v.exp()).sum();
        let mut gradient: Vec<f64> = logits.iter().map(|v| v.exp() / sum).collect();
        gradient[class] -= 1.0;
        (sum.ln() - logits[class], gradient)
    };
    for rows in [&[0, 1, 2, 3, 4, 5][..], &[5, 1, 2], &[4, 1], &[]] {
        check(&labels, rows, row_loss);
    }
}

#[test]
fn binary_cross_entropy_is_a_mean_over_classes_of_labelled_rows() {
    let values = vec![1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1];
    let labelled = vec![true, false, true, true, true, false];
    let labels = Labels::Multi { n_classes: 3, values: values.clone(), labelled };
    let row_loss = |logits: &[f64], row: usize| {
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let targets = values[row * 3..row * 3 + 3].iter().map(|&v| f64::from(v));
        let pairs: Vec<(f64, f64)> = logits.iter().copied().zip(targets).collect();
        let loss = |&(v, target): &(f64, f64)| {
            -target * sigmoid(v).ln() - (1.0 - target) * (1.0 - sigmoid(v)).ln()
        };
        let gradient = pairs.iter().map(|&(v, target)| (sigmoid(v) - target) / 3.0).collect();
        (pairs.iter().map(loss).sum::<f64>() / 3.0, gradient)
    };
    for rows in [&[0, 1, 2, 3, 4, 5][..], &[4, 1, 0], &[5, 1], &[]] {
        check(&labels, rows, row_loss);
    }
}
