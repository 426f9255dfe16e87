//! Rows added where they belong, moving averages, zeros.

use proptest::prelude::*;
use sylvie_tensor::{Backend, CpuBackend};

use crate::{Matrix, backend, bits, matrix, real_matrix, row_counts, sequence};

/// `n` distinct rows below `n_rows`, in random order.
fn distinct_rows(seed: u64, n: usize, n_rows: usize) -> Vec<u32> {
    let mut sequence = sequence(seed);
    let mut rows: Vec<u32> = (0..n_rows as u32).collect();
    for place in 0..n {
        let other = place + sequence.below((n_rows - place) as u32) as usize;
        rows.swap(place, other);
    }
    rows.truncate(n);
    rows
}

fn scattered(x: &Matrix, rows: &[u32], before: &Matrix) -> Vec<f32> {
    let mut values = before.values().to_vec();
    let width = x.n_cols();
    for (i, &row) in rows.iter().enumerate() {
        for j in 0..width {
            values[row as usize * width + j] += x.row(i)[j];
        }
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_are_added_where_they_belong(
        seed in 0..u64::MAX - 8,
        n_rows in row_counts(),
        share in 0.0..1.0_f64,
        width in 0..7_usize,
        is_ascending in proptest::bool::ANY,
        n_threads in 1..4_usize,
    ) {
        let backend = CpuBackend::new(n_threads);
        let mut rows = distinct_rows(seed, (share * n_rows as f64) as usize, n_rows);
        if is_ascending {
            rows.sort_unstable();
        }
        let x = real_matrix(seed + 1, rows.len(), width);
        let before = real_matrix(seed + 2, n_rows, width);
        let mut out = before.clone();
        backend.scatter_add(&x, &rows, &mut out);
        prop_assert_eq!(bits(out.values()), bits(&scattered(&x, &rows, &before)));
    }

    #[test]
    fn averages_move(seed in 0..u64::MAX - 8, n in row_counts(), decay in 0.0..1.0_f32) {
        let x = real_matrix(seed, n, 3);
        let before = real_matrix(seed + 1, n, 3);
        let mut average = before.clone();
        backend().smooth(decay, &x, &mut average);
        let rest = 1.0 - decay;
        let pairs = before.values().iter().zip(x.values());
        let expected: Vec<f32> = pairs
            .map(|(&before, &x)| {
                let (kept, added) = (decay * before, rest * x);
                kept + added
            })
            .collect();
        prop_assert_eq!(bits(average.values()), bits(&expected));
    }
}

#[test]
fn an_average_by_hand() {
    let mut average = matrix(1, 3, &[0.0, 8.0, -1.0]);
    backend().smooth(0.75, &matrix(1, 3, &[4.0, 0.0, -1.0]), &mut average);
    assert_eq!(average.values(), [1.0, 6.0, -1.0]);
}
