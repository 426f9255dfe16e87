//! Row-wise primitives: sums, factors, bias, ReLU, LayerNorm.

use proptest::prelude::*;
use sylvie_tensor::Backend;

use crate::{
    MODES, Matrix, assert_close, backend, bits, expected, integer_matrix, integers, matrix,
    real_matrix, reals, row_counts,
};

/// `f(row, column)` for every place, row after row.
fn each(n_rows: usize, n_cols: usize, f: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let places = (0..n_rows).flat_map(|row| (0..n_cols).map(move |column| (row, column)));
    places.map(|(row, column)| f(row, column)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_and_factors(seed in 0..u64::MAX - 8, n in row_counts(), width in 1..10_usize) {
        let backend = backend();
        let x = integer_matrix(seed, n, width);
        let y = integer_matrix(seed + 1, n, width);
        let factors = integer_matrix(seed + 2, n, 1);
        let bias = integer_matrix(seed + 3, 1, width);
        let (f, b) = (factors.values(), bias.values());

        let mut out = y.clone();
        backend.scale_rows(&factors, &mut out);
        prop_assert_eq!(out.values(), each(n, width, |i, j| y.row(i)[j] * f[i]));
        let mut out = y.clone();
        backend.add_scaled_rows(&x, &factors, &mut out);
        prop_assert_eq!(out.values(), each(n, width, |i, j| y.row(i)[j] + f[i] * x.row(i)[j]));
        let mut out = y.clone();
        backend.add_bias(&bias, &mut out);
        prop_assert_eq!(out.values(), each(n, width, |i, j| y.row(i)[j] + b[j]));

        let sums = each(1, width, |_, j| (0..n).map(|i| x.row(i)[j]).sum());
        for mode in MODES {
            let mut out = bias.clone();
            backend.column_sums(&x, mode, &mut out);
            prop_assert_eq!(out.values(), expected(mode, &bias, &matrix(1, width, &sums)));
        }
    }

    #[test]
    fn relu_and_its_backward(seed in 0..u64::MAX - 8, n in row_counts(), width in 1..10_usize) {
        let backend = backend();
        let x = integer_matrix(seed, n, width);
        let dy = integer_matrix(seed + 1, n, width);
        let mut y = x.clone();
        backend.relu(&mut y);
        prop_assert_eq!(y.values(), each(n, width, |i, j| x.row(i)[j].max(0.0)));
        let mut dx = dy.clone();
        backend.relu_backward(&y, &mut dx);
        let expected = each(n, width, |i, j| if x.row(i)[j] > 0.0 { dy.row(i)[j] } else { 0.0 });
        prop_assert_eq!(dx.values(), expected);
    }

    #[test]
    fn layer_norm_is_that_of_f64(seed in 0..u64::MAX - 8, n in row_counts(), width in 1..40_usize) {
        let case = Norm::new(seed, n, width);
        let mut x = case.x.clone();
        let (normalised, inverse) = backend().layer_norm(&case.gain, &case.offset, &mut x);
        let (y, expected_normalised, expected_inverse) = case.forward(&wide(case.x.values()));
        for (row, &deviation) in expected_inverse.iter().enumerate() {
            // Values that lie close together are divided by little: their rounding grows with it.
            let tolerance = 1e-6 + 4e-7 * deviation;
            let places = row * width..(row + 1) * width;
            assert_close(x.row(row), &y[places.clone()], tolerance, "LayerNorm");
            assert_close(normalised.row(row), &expected_normalised[places], tolerance, "normalised");
            assert_close(inverse.row(row), &[deviation], tolerance, "inverse deviations");
        }
    }
}

#[test]
fn relu_leaves_not_a_number_and_gives_one_zero() {
    let mut x = matrix(1, 4, &[f32::NAN, -0.0, f32::INFINITY, f32::NEG_INFINITY]);
    backend().relu(&mut x);
    assert!(x.values()[0].is_nan());
    assert_eq!(bits(&x.values()[1..]), bits(&[0.0, f32::INFINITY, 0.0]));
}

#[test]
fn column_sums_of_many_partial_sums() {
    let n = 3 * 4096 + 7;
    let x = integer_matrix(9, n, 2);
    let mut out = matrix(1, 2, &[f32::NAN; 2]);
    backend().column_sums(&x, sylvie_tensor::Mode::Assign, &mut out);
    let sum = |j: usize| (0..n).map(|i| x.row(i)[j]).sum::<f32>();
    assert_eq!(out.values(), [sum(0), sum(1)]);
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// LayerNorm in f64.
struct Norm {
    x: Matrix,
    gain: Matrix,
    offset: Matrix,
}

impl Norm {
    fn new(seed: u64, n_rows: usize, width: usize) -> Self {
        Self {
            x: real_matrix(seed, n_rows, width),
            gain: real_matrix(seed + 1, 1, width),
            offset: real_matrix(seed + 2, 1, width),
        }
    }

    /// Output, normalised rows, inverse deviations.
    fn forward(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let width = self.gain.n_cols();
        let (mut y, mut normalised, mut inverses) = (Vec::new(), Vec::new(), Vec::new());
        for row in x.chunks_exact(width) {
            let mean = row.iter().sum::<f64>() / width as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
            let inverse = 1.0 / (variance + 1e-5).sqrt();
            inverses.push(inverse);
            for (j, value) in row.iter().enumerate() {
                let value = (value - mean) * inverse;
                normalised.push(value);
                let (gain, offset) = (self.gain.values()[j], self.offset.values()[j]);
                y.push(value * f64::from(gain) + f64::from(offset));
            }
        }
        (y, normalised, inverses)
    }

    /// `sum(y * dy)` as a function of `x`.
    fn value(&self, x: &[f64], dy: &[f64]) -> f64 {
        self.forward(x).0.iter().zip(dy).map(|(y, dy)| y * dy).sum()
    }
}

#[test]
fn layer_norm_backward_is_the_slope() {
    for (seed, n, width) in [(1, 5, 7), (2, 3, 1), (3, 4, 2), (4, 1, 33), (5, 0, 3)] {
        let case = Norm::new(seed, n, width);
        let dy = reals(seed + 10, n * width);
        let (x, dy64) = (wide(case.x.values()), wide(&dy));
        let step = 1e-5;
        let slopes: Vec<f64> = (0..x.len())
            .map(|place| {
                let (mut up, mut down) = (x.clone(), x.clone());
                up[place] += step;
                down[place] -= step;
                (case.value(&up, &dy64) - case.value(&down, &dy64)) / (2.0 * step)
            })
            .collect();

        let (gain, offset) = (&case.gain, &case.offset);
        let (normalised, inverse) = backend().layer_norm(gain, offset, &mut case.x.clone());
        let mut dx = matrix(n, width, &dy);
        let (mut dgain, mut doffset) = (real_matrix(7, 1, width), real_matrix(8, 1, width));
        let saved = (&normalised, &inverse);
        backend().layer_norm_backward(&case.gain, saved, &mut dx, &mut dgain, &mut doffset);

        let (_, normalised, _) = case.forward(&x);
        let column = |f: &dyn Fn(usize) -> f64, j: usize| (0..n).map(|i| f(i * width + j)).sum();
        let gains: Vec<f64> =
            (0..width).map(|j| column(&|at| dy64[at] * normalised[at], j)).collect();
        let offsets: Vec<f64> = (0..width).map(|j| column(&|at| dy64[at], j)).collect();
        assert_close(dx.values(), &slopes, 2e-5, "dx");
        assert_close(dgain.values(), &gains, 1e-5, "dgain");
        assert_close(doffset.values(), &offsets, 1e-5, "doffset");
    }
}

#[test]
fn layer_norm_of_a_constant_row_is_the_offset() {
    let offset = matrix(1, 4, &integers(1, 4));
    let mut x = matrix(2, 4, &[3.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
    let gain = real_matrix(2, 1, 4);
    backend().layer_norm(&gain, &offset, &mut x);
    assert_eq!(x.row(0), offset.values());
    assert_eq!(x.row(1), offset.values());
}
