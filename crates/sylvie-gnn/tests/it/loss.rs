//! Losses over labelled rows.

use sylvie_gnn::{ClassCounts, ClassWeights, Targets, loss_and_gradient, loss_divisor};
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

#[test]
fn balanced_weights_by_hand() {
    // Three of class 0, one of class 1, none of class 2, one unlabelled, one that does not train.
    let labels = Labels::single(3, vec![0, 0, 0, 1, UNLABELLED, 2]).expect("labels");
    let counts = ClassCounts::new(&labels, &[0, 1, 2, 3, 4]);
    assert_eq!(counts, ClassCounts { n_nodes: 4, n_of_class: vec![3, 1, 0] });
    let weights = ClassWeights::Balanced.of_classes(&labels, &counts).expect("weights");
    assert_eq!(weights, [4.0 / 9.0, 4.0 / 3.0, 1.0]);
    let divisor = loss_divisor(&labels, &counts, Some(&weights));
    assert!((divisor - 8.0 / 3.0).abs() < 1e-6, "{divisor}");
    assert_eq!(loss_divisor(&labels, &counts, None), 4.0);

    // Class 0 on one of four nodes, class 1 on all, class 2 on none.
    let values = vec![1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0];
    let labels = Labels::multi(3, values).expect("labels");
    let counts = ClassCounts::new(&labels, &[0, 1, 2, 3]);
    let weights = ClassWeights::Balanced.of_classes(&labels, &counts).expect("weights");
    assert_eq!(weights, [3.0, 1.0, 1.0]);
    assert_eq!(loss_divisor(&labels, &counts, Some(&weights)), 4.0);
    assert_eq!(ClassWeights::None.of_classes(&labels, &counts), None);
}

#[test]
fn weighted_losses_by_hand() {
    let backend = CpuBackend::new(1);
    // Softmax of (0, ln 3) is (1/4, 3/4).
    let logits = backend.upload(2, 2, &[0.0, 3.0_f32.ln(), 0.0, 3.0_f32.ln()]);
    let labels = Labels::single(2, vec![0, 1]).expect("labels");
    let targets = Targets::weighted(&labels, &[0, 1], vec![2.0, 0.5]);
    let (loss, gradient) = loss_and_gradient(&backend, &logits, &targets);
    let expected = 2.0 * 4.0_f64.ln() + 0.5 * (4.0_f64 / 3.0).ln();
    assert!((loss - expected).abs() < 1e-6, "{loss} instead of {expected}");
    assert_near(gradient.values(), &[-1.5, 1.5, 0.125, -0.125]);

    // Sigmoid of ln 3 is 3/4; only ones are weighted.
    let logits = backend.upload(1, 2, &[3.0_f32.ln(), 3.0_f32.ln()]);
    let labels = Labels::multi(2, vec![1, 0]).expect("labels");
    let targets = Targets::weighted(&labels, &[0], vec![4.0, 9.0]);
    let (loss, gradient) = loss_and_gradient(&backend, &logits, &targets);
    let expected = (4.0 * (4.0_f64 / 3.0).ln() + 4.0_f64.ln()) / 2.0;
    assert!((loss - expected).abs() < 1e-6, "{loss} instead of {expected}");
    assert_near(gradient.values(), &[-0.5, 0.375]);
}

fn assert_near(found: &[f32], expected: &[f32]) {
    let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
    let is_same = found.len() == expected.len() && found.iter().zip(expected).all(is_near);
    assert!(is_same, "{found:?} instead of {expected:?}");
}

/// Weights of 1 change no bit of a gradient.
#[test]
fn weights_of_one_change_nothing() {
    let backend = CpuBackend::new(1);
    let single = Labels::single(3, vec![0, UNLABELLED, 2, 1, UNLABELLED, 0]).expect("labels");
    let values = (0..18_u8).map(|place| place % 5 % 2).collect();
    let multi = Labels::multi(3, values).expect("labels");
    for labels in [single, multi] {
        let rows = [0, 1, 2, 3, 4, 5];
        let weighted = Targets::weighted(&labels, &rows, vec![1.0; 3]);
        let plain = Targets::new(&backend, &labels, &rows);
        assert_eq!(weighted.n_rows(), plain.n_rows());
        let (found, gradient) = loss_and_gradient(&backend, &logits(), &weighted);
        let (expected, plain) = loss_and_gradient(&backend, &logits(), &plain);
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
        assert_eq!(gradient, plain);
    }
}

#[test]
fn words_of_class_weights() {
    for (word, weights) in [
        ("none", ClassWeights::None),
        ("balanced", ClassWeights::Balanced),
        ("1,2.5,0.125", ClassWeights::Given(vec![1.0, 2.5, 0.125])),
    ] {
        assert_eq!(word.parse(), Ok(weights.clone()));
        assert_eq!(weights.to_string(), word);
    }
    for word in ["", "1,", "1,0", "-1", "nan", "1,inf", "even", "1 2"] {
        let error = word.parse::<ClassWeights>().expect_err(word).to_string();
        assert!(error.contains("class weights") && error.contains("balanced"), "{error}");
    }
}
