//! Losses and their gradients, as the CPU backend.

use sylvie_kernels::{BINARY_CROSS_ENTROPY, SOFTMAX_CROSS_ENTROPY, SUM_F64};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_tensor::{Backend as _, CpuBackend};

use crate::ways::{WIDTHS, Way, assert_near, numbers, some_rows, u32_of, way, words};

/// The sum of the losses of listed rows.
fn total(way: Way, losses: &Buffer, n: usize) -> f64 {
    let out = Buffer::new(8, 0);
    way.run(
        &SUM_F64,
        (1, n),
        &[Argument::from(losses), Argument::from(&out), Argument::U64(n as u64)],
    );
    out.values::<f64>()[0]
}

fn assert_same_loss(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{found} instead of {expected}"
    );
}

#[test]
fn losses_and_gradients() {
    let (n_rows, n_listed) = (26, 15);
    for (turn, n_classes) in WIDTHS.into_iter().enumerate() {
        let mut rows = some_rows(1, n_listed, n_rows);
        rows.sort_unstable();
        let logits: Vec<f32> =
            numbers(2, n_rows * n_classes).iter().map(|v| v * [1.0, 8.0, 40.0][turn % 3]).collect();
        let classes: Vec<u32> = words(3, n_listed).iter().map(|w| w % n_classes as u32).collect();
        let targets: Vec<f32> =
            words(4, n_listed * n_classes).iter().map(|w| (w % 2) as f32).collect();
        let backend = CpuBackend::new(1);
        let matrix = backend.upload(n_rows, n_classes, &logits);
        let device_logits = Buffer::at_offset(&logits, 4 * (turn % 2));
        let (device_rows, device_classes) =
            (Buffer::from_values(&rows), Buffer::from_values(&classes));
        let device_targets = Buffer::from_values(&targets);
        let shape = [u32_of(n_listed), u32_of(n_classes)];

        let mut gradient = backend.zeros(n_rows, n_classes);
        let expected = backend.softmax_cross_entropy(&matrix, &rows, &classes, &mut gradient);
        let dlogits = Buffer::from_values(&vec![0.0_f32; n_rows * n_classes]);
        let losses = Buffer::new(8 * n_listed, 0);
        let pointers =
            [&device_logits, &device_rows, &device_classes, &dlogits, &losses].map(Argument::from);
        way(turn).run(
            &SOFTMAX_CROSS_ENTROPY,
            (n_listed, n_classes),
            &[&pointers[..], &shape].concat(),
        );
        assert_same_loss(total(way(turn), &losses, n_listed), expected);
        assert_near(&dlogits.values(), gradient.values(), 0.1, "gradients of cross-entropy");

        let mut gradient = backend.zeros(n_rows, n_classes);
        let target_matrix = backend.upload(n_listed, n_classes, &targets);
        let expected = backend.binary_cross_entropy(&matrix, &rows, &target_matrix, &mut gradient);
        let dlogits = Buffer::from_values(&vec![0.0_f32; n_rows * n_classes]);
        let losses = Buffer::new(8 * n_listed, 0);
        let pointers =
            [&device_logits, &device_rows, &device_targets, &dlogits, &losses].map(Argument::from);
        way(turn).run(
            &BINARY_CROSS_ENTROPY,
            (n_listed, n_classes),
            &[&pointers[..], &shape].concat(),
        );
        assert_same_loss(total(way(turn), &losses, n_listed), expected);
        assert_near(
            &dlogits.values(),
            gradient.values(),
            0.1 / n_classes as f64,
            "gradients of binary cross-entropy",
        );
    }
}
