//! Dense and sparse products, exact on whole numbers.

use proptest::prelude::*;
use sylvie_tensor::{Backend, Mode};

use crate::{MODES, Matrix, backend, expected, integer_matrix, matrix, row_counts, sparse};

fn transposed(x: &Matrix) -> Matrix {
    let (n_rows, n_cols) = (x.n_rows(), x.n_cols());
    let places = (0..n_cols).flat_map(|column| (0..n_rows).map(move |row| row * n_cols + column));
    let values: Vec<f32> = places.map(|place| x.values()[place]).collect();
    matrix(n_cols, n_rows, &values)
}

/// `a b`, one value after the other.
fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let mut values = Vec::new();
    for row in 0..a.n_rows() {
        for column in 0..b.n_cols() {
            values.push((0..a.n_cols()).map(|i| a.row(row)[i] * b.row(i)[column]).sum::<f32>());
        }
    }
    matrix(a.n_rows(), b.n_cols(), &values)
}

/// Every product with the matrices `x` (`n x p`), `w` (`p x q`) and `y` (`n x q`), whose first
/// dimension is the long one.
fn check(seed: u64, n: usize, p: usize, q: usize) {
    let backend = backend();
    let x = integer_matrix(seed, n, p);
    let w = integer_matrix(seed + 1, p, q);
    let y = integer_matrix(seed + 2, n, q);
    let sparse_x = backend.upload_sparse(&sparse(&x));
    for mode in MODES {
        let before = integer_matrix(seed + 3, n, q);
        let by_rows = expected(mode, &before, &product(&x, &w));
        let mut out = before.clone();
        backend.matmul(&x, &w, mode, &mut out);
        assert_eq!(out.values(), by_rows, "{n} x {p} times {p} x {q}, {mode:?}");
        let mut out = before.clone();
        backend.matmul_nt(&x, &transposed(&w), mode, &mut out);
        assert_eq!(out.values(), by_rows, "{n} x {p} times ({q} x {p})^T, {mode:?}");
        let mut out = before.clone();
        backend.sparse_matmul(&sparse_x, &w, mode, &mut out);
        assert_eq!(out.values(), by_rows, "sparse {n} x {p} times {p} x {q}, {mode:?}");

        let before = integer_matrix(seed + 4, p, q);
        let by_columns = expected(mode, &before, &product(&transposed(&x), &y));
        let mut out = before.clone();
        backend.matmul_tn(&x, &y, mode, &mut out);
        assert_eq!(out.values(), by_columns, "({n} x {p})^T times {n} x {q}, {mode:?}");
        let mut out = before.clone();
        backend.sparse_matmul_tn(&sparse_x, &y, mode, &mut out);
        assert_eq!(out.values(), by_columns, "(sparse {n} x {p})^T times {n} x {q}, {mode:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_shape(seed in 0..u64::MAX - 8, n in row_counts(), p in 0..10_usize, q in 0..10_usize) {
        check(seed, n, p, q);
    }
}

#[test]
fn more_partial_products_than_one_batch() {
    check(1, 9 * 4096 + 1, 2, 3);
}

#[test]
fn wider_than_any_tile() {
    check(2, 70, 301, 133);
    check(3, 600, 3, 530);
}

#[test]
fn a_column_longer_than_a_chunk() {
    // Sparse products by column are cut into chunks of columns.
    check(4, 3, 1100, 2);
}

#[test]
fn assigning_replaces_what_was_not_a_number() {
    let backend = backend();
    for n_inner in [0, 3] {
        let (a, b) = (integer_matrix(5, 2, n_inner), integer_matrix(6, n_inner, 2));
        let mut out = matrix(2, 2, &[f32::NAN; 4]);
        backend.matmul(&a, &b, Mode::Assign, &mut out);
        assert_eq!(out.values(), product(&a, &b).values());
        let mut out = matrix(n_inner, n_inner, &vec![f32::NAN; n_inner * n_inner]);
        backend.matmul_tn(&a, &transposed(&b), Mode::Assign, &mut out);
        assert!(out.values().iter().all(|value| value.is_finite()));
    }
}
