//! Adam against the update rule of `torch.optim.Adam`.

use sylvie_tensor::{AdamStep, Backend};

use crate::{assert_close, backend, matrix, reals};

fn settings(weight_decay: f32) -> AdamStep {
    let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
    AdamStep { learning_rate: 0.01, beta1, beta2, epsilon, weight_decay, step: 0 }
}

/// Weights after each step, worked out in double precision from the rule in torch's documentation.
const WEIGHTS_AFTER: [[f64; 3]; 5] = [
    [0.990_000_000_166_666_7, -1.990_000_000_083_333_3, 0.490_000_000_048_780_5],
    [0.985_319_199_305_859_9, -1.987_017_610_870_884, 0.483_123_427_773_753],
    [0.977_977_554_763_922_5, -1.984_359_477_839_364, 0.485_340_733_307_510_9],
    [0.971_532_010_111_717_7, -1.979_717_883_717_420_5, 0.484_707_477_464_080_7],
    [0.964_714_282_515_267_6, -1.975_987_007_797_386, 0.484_279_113_731_841_85],
];

#[test]
fn five_steps_with_weight_decay() {
    let gradients = [
        [0.5, -1.0, 2.0],
        [-0.25, 0.75, 0.0],
        [1.0, 0.125, -3.0],
        [0.0, -0.5, 1.5],
        [4.0, 0.25, -0.125],
    ];
    let backend = backend();
    let mut weights = matrix(1, 3, &[1.0, -2.0, 0.5]);
    let (mut first, mut second) = (backend.zeros(1, 3), backend.zeros(1, 3));
    for (number, (gradient, expected)) in (1..).zip(gradients.iter().zip(&WEIGHTS_AFTER)) {
        let step = AdamStep { step: number, ..settings(0.1) };
        let gradient = matrix(1, 3, gradient);
        backend.adam(&step, &gradient, (&mut first, &mut second), &mut weights);
        // The step is a hundredth of the weight and beta2 is rounded to f32.
        assert_close(weights.values(), expected, 3e-7, &format!("step {number}"));
    }
}

#[test]
fn many_steps_in_double_precision() {
    let backend = backend();
    let n = 30;
    let start = reals(1, n);
    let mut weights = matrix(5, 6, &start);
    let (mut first, mut second) = (backend.zeros(5, 6), backend.zeros(5, 6));
    let mut expected: Vec<f64> = start.iter().map(|&w| f64::from(w)).collect();
    let (mut m, mut v) = (vec![0.0_f64; n], vec![0.0_f64; n]);
    for number in 1..=200_u32 {
        let gradient = reals(100 + u64::from(number), n);
        for place in 0..n {
            let g = f64::from(gradient[place]);
            m[place] = 0.9 * m[place] + 0.1 * g;
            v[place] = 0.999 * v[place] + 0.001 * g * g;
            let m_hat = m[place] / (1.0 - 0.9_f64.powi(number as i32));
            let v_hat = v[place] / (1.0 - 0.999_f64.powi(number as i32));
            expected[place] -= 0.01 * m_hat / (v_hat.sqrt() + 1e-8);
        }
        let step = AdamStep { step: number, ..settings(0.0) };
        let gradient = matrix(5, 6, &gradient);
        backend.adam(&step, &gradient, (&mut first, &mut second), &mut weights);
    }
    assert_close(weights.values(), &expected, 1e-5, "weights after 200 steps");
}

#[test]
fn a_gradient_of_zero_moves_nothing() {
    let backend = backend();
    let mut weights = matrix(1, 2, &[0.0, 3.0]);
    let (mut first, mut second) = (backend.zeros(1, 2), backend.zeros(1, 2));
    let step = AdamStep { step: 1, ..settings(0.0) };
    backend.adam(&step, &backend.zeros(1, 2), (&mut first, &mut second), &mut weights);
    assert_eq!(weights.values(), [0.0, 3.0]);
}
