//! Dropout: which values go, how many, and that the sparse version agrees.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use sylvie_random::{Coordinates, Pass, Stream};
use sylvie_tensor::{Backend, CpuBackend};

use crate::{Matrix, backend, bits, dropout_draws, matrix, real_matrix, row_counts, sparse};

fn ones(n_rows: usize, n_cols: usize) -> Matrix {
    matrix(n_rows, n_cols, &vec![1.0; n_rows * n_cols])
}

fn keys(n: usize) -> Vec<u32> {
    // Keys that are neither ascending nor close to the row's place.
    (0..n as u32).map(|row| row.wrapping_mul(2_654_435_761)).collect()
}

/// The factors of one row.
fn factors(rate: f32, seed: u64, key: u32, n_cols: usize) -> Vec<f32> {
    let mut row = ones(1, n_cols);
    backend().dropout(rate, dropout_draws(seed), &vec![key], &mut row);
    row.values().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_mask_depends_on_key_column_and_draws_alone(
        seed in any::<u64>(),
        n in row_counts(),
        width in 1..30_usize,
        rate in 0.0..0.99_f32,
    ) {
        let (keys, mut x) = (keys(n), ones(n, width));
        backend().dropout(rate, dropout_draws(seed), &keys, &mut x);
        for (row, &key) in keys.iter().enumerate().step_by(n / 50 + 1) {
            // Alone, and in a wider matrix.
            prop_assert_eq!(x.row(row), factors(rate, seed, key, width));
            prop_assert_eq!(x.row(row), &factors(rate, seed, key, width + 13)[..width]);
        }
    }

    #[test]
    fn it_is_linear_and_its_own_backward(
        seed in any::<u64>(),
        n in 0..40_usize,
        width in 1..30_usize,
        rate in 0.0..0.99_f32,
    ) {
        let (backend, keys, draws) = (backend(), keys(n), dropout_draws(seed));
        let (mut mask, mut x) = (ones(n, width), real_matrix(seed, n, width));
        let before = x.clone();
        backend.dropout(rate, draws, &keys, &mut mask);
        backend.dropout(rate, draws, &keys, &mut x);
        let masked = before.values().iter().zip(mask.values()).map(|(x, factor)| x * factor);
        prop_assert_eq!(x.values(), masked.collect::<Vec<f32>>());
    }

    #[test]
    fn sparse_is_dense_at_the_stored_places(
        seed in any::<u64>(),
        n in row_counts(),
        width in 1..40_usize,
        rate in 0.0..0.99_f32,
    ) {
        let (backend, keys, draws) = (backend(), keys(n), dropout_draws(seed));
        // About a third of the places are stored.
        let mut x = real_matrix(seed, n, width);
        x.values_mut().iter_mut().for_each(|v| *v = if *v > 0.7 { *v } else { 0.0 });
        let dropped = backend.sparse_dropout(rate, draws, &keys, &backend.upload_sparse(&sparse(&x)));
        let mut identity = backend.zeros(width, width);
        for column in 0..width {
            identity.values_mut()[column * width + column] = 1.0;
        }
        let mut found = backend.zeros(n, width);
        backend.sparse_matmul(&dropped, &identity, sylvie_tensor::Mode::Assign, &mut found);
        backend.dropout(rate, draws, &keys, &mut x);
        prop_assert_eq!(found.values(), x.values());
        // The same by columns.
        let mut found = backend.zeros(width, n.min(3));
        let mut rows = backend.zeros(n, n.min(3));
        for row in 0..n.min(3) {
            rows.values_mut()[row * n.min(3) + row] = 1.0;
        }
        backend.sparse_matmul_tn(&dropped, &rows, sylvie_tensor::Mode::Assign, &mut found);
        for row in 0..n.min(3) {
            let column: Vec<f32> = (0..width).map(|j| found.row(j)[row]).collect();
            prop_assert_eq!(&column, x.row(row));
        }
    }
}

#[test]
fn any_coordinate_changes_the_mask() {
    let base = Coordinates::new(1, Stream::Dropout).at(3, 1, Pass::Forward);
    let masks: Vec<Vec<u32>> = [
        base,
        Coordinates::new(2, Stream::Dropout).at(3, 1, Pass::Forward),
        base.at(4, 1, Pass::Forward),
        base.at(3, 2, Pass::Forward),
        Coordinates::new(1, Stream::DropoutAggregate).at(3, 1, Pass::Forward),
    ]
    .iter()
    .map(|coordinates| {
        let mut x = ones(1, 200);
        backend().dropout(0.5, coordinates.family(), &vec![9], &mut x);
        bits(x.values())
    })
    .collect();
    for (place, mask) in masks.iter().enumerate() {
        assert!(masks[..place].iter().all(|earlier| earlier != mask), "mask {place}");
    }
    assert_ne!(factors(0.5, 1, 9, 200), factors(0.5, 1, 10, 200));
}

/// Of `n` independent values with probability `p`, more than 6 deviations from the mean are seen once
/// in 5e8 tests.
fn assert_share(count: usize, n: usize, p: f64, what: &str) {
    let deviation = (n as f64 * p * (1.0 - p)).sqrt();
    let distance = (count as f64 - n as f64 * p).abs();
    assert!(distance <= 6.0 * deviation, "{what}: {count} of {n} at probability {p}");
}

#[test]
fn the_rate_is_kept_by_every_column_and_pair_of_neighbours() {
    let (n_rows, n_cols) = (20_000, 16);
    for rate in [0.1, 0.3, 0.5, 0.9] {
        // Sixteen bits decide: the rate and its scale are those of the nearest multiple of 2^-16.
        let dropped = (f64::from(rate) * 65_536.0).round() / 65_536.0;
        let mut x = ones(n_rows, n_cols);
        let keys: Vec<u32> = (0..n_rows as u32).collect();
        backend().dropout(rate, dropout_draws(11), &keys, &mut x);
        let scale = (1.0 / (1.0 - dropped)) as f32;
        let is_known = |&value: &f32| value == 0.0 || (value - scale).abs() <= 1e-6 * scale;
        assert!(x.values().iter().all(is_known), "factors are 0 or {scale}");
        let rows = || (0..n_rows).map(|row| x.row(row));
        for j in 0..n_cols {
            let n_dropped = rows().filter(|row| row[j] == 0.0).count();
            assert_share(n_dropped, n_rows, dropped, "column");
            let n_pairs =
                rows().filter(|row| row[j] == 0.0 && row[(j + 1) % n_cols] == 0.0).count();
            assert_share(n_pairs, n_rows, dropped * dropped, "pair of columns");
        }
        let pairs = (1..n_rows).filter(|&row| x.row(row)[0] == 0.0 && x.row(row - 1)[0] == 0.0);
        assert_share(pairs.count(), n_rows - 1, dropped * dropped, "pair of rows");
    }
}

#[test]
fn rate_zero_changes_no_bit() {
    let values = [1.0, -0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 2.0, -3.5];
    let mut x = matrix(2, 3, &values);
    backend().dropout(0.0, dropout_draws(1), &vec![4, 5], &mut x);
    assert_eq!(bits(x.values()), bits(&values));
}

#[test]
fn rates_that_are_none_panic() {
    for rate in [1.0, -0.1, f32::NAN, f32::INFINITY] {
        let mut x = ones(1, 3);
        let attempt = AssertUnwindSafe(|| {
            CpuBackend::new(1).dropout(rate, dropout_draws(1), &vec![0], &mut x);
        });
        assert!(catch_unwind(attempt).is_err(), "rate {rate}");
    }
}
