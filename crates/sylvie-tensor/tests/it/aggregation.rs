//! Sums over neighbours and their transposes.

use proptest::prelude::*;
use sylvie_tensor::Backend;

use crate::{Matrix, backend, block, edges, integer_matrix, row_counts};

/// `out[row] += scale[column] * x[column]` for each edge.
fn gathered(edges: &[(u32, u32)], scale: Option<&Matrix>, x: &Matrix, out: &Matrix) -> Vec<f32> {
    let mut out = out.clone();
    let width = x.n_cols();
    for &(row, column) in edges {
        let (row, column) = (row as usize, column as usize);
        let factor = scale.map_or(1.0, |scale| scale.values()[column]);
        for (j, &value) in x.row(column).iter().enumerate() {
            out.values_mut()[row * width + j] += factor * value;
        }
    }
    out.values().to_vec()
}

/// `out[column] += scale[column] * dy[row]` for each edge.
fn scattered(edges: &[(u32, u32)], scale: Option<&Matrix>, dy: &Matrix, out: &Matrix) -> Vec<f32> {
    let mut out = out.clone();
    let width = dy.n_cols();
    for &(row, column) in edges {
        let (row, column) = (row as usize, column as usize);
        let factor = scale.map_or(1.0, |scale| scale.values()[column]);
        for (j, &value) in dy.row(row).iter().enumerate() {
            out.values_mut()[column * width + j] += factor * value;
        }
    }
    out.values().to_vec()
}

fn inner(x: &Matrix, y: &Matrix) -> f64 {
    let pairs = x.values().iter().zip(y.values());
    pairs.map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn is_what_it_says(
        seed in 0..u64::MAX - 8,
        n_local in row_counts(),
        n_columns in row_counts(),
        degree in 0..4_usize,
        width in 1..8_usize,
    ) {
        let backend = backend();
        let edges = edges(seed, n_local, n_columns, degree * n_local.max(n_columns));
        let adjacency = backend.upload_block(&block(n_columns, &edges));
        let x = integer_matrix(seed + 1, n_columns, width);
        let dy = integer_matrix(seed + 2, n_local, width);
        let factors = integer_matrix(seed + 3, n_columns, 1);
        for scale in [None, Some(&factors)] {
            let before = integer_matrix(seed + 4, n_local, width);
            let mut out = before.clone();
            backend.aggregate(&adjacency, scale, &x, &mut out);
            prop_assert_eq!(out.values(), gathered(&edges, scale, &x, &before));

            let before = integer_matrix(seed + 5, n_columns, width);
            let mut out = before.clone();
            backend.aggregate_transposed(&adjacency, scale, &dy, &mut out);
            prop_assert_eq!(out.values(), scattered(&edges, scale, &dy, &before));

            // <A x, dy> = <x, A^T dy>, exactly on whole numbers.
            let mut forward = backend.zeros(n_local, width);
            backend.aggregate(&adjacency, scale, &x, &mut forward);
            let mut backward = backend.zeros(n_columns, width);
            backend.aggregate_transposed(&adjacency, scale, &dy, &mut backward);
            prop_assert_eq!(inner(&forward, &dy), inner(&x, &backward));
        }
    }
}

/// A node read by everyone and a node that reads everyone.
#[test]
fn hubs() {
    let n = 700_u32;
    let mut edges: Vec<(u32, u32)> = (0..n).map(|i| (i, 3)).chain((0..n).map(|i| (5, i))).collect();
    edges.sort_unstable();
    edges.dedup();
    let backend = backend();
    let adjacency = backend.upload_block(&block(n as usize, &edges));
    let x = integer_matrix(1, n as usize, 3);
    let zeros = backend.zeros(n as usize, 3);
    let mut out = zeros.clone();
    backend.aggregate(&adjacency, None, &x, &mut out);
    assert_eq!(out.values(), gathered(&edges, None, &x, &zeros));
    let mut out = zeros.clone();
    backend.aggregate_transposed(&adjacency, None, &x, &mut out);
    assert_eq!(out.values(), scattered(&edges, None, &x, &zeros));
}

/// Sums follow the order of the columns: cut into blocks of ascending columns they are the same bits.
#[test]
fn blocks_of_ascending_columns_give_the_same_bits() {
    let backend = backend();
    let (n_local, n_columns, width) = (40, 90, 5);
    let edges = edges(3, n_local, n_columns, 600);
    let x = crate::real_matrix(4, n_columns, width);
    let mut whole = backend.zeros(n_local, width);
    backend.aggregate(&backend.upload_block(&block(n_columns, &edges)), None, &x, &mut whole);
    let mut pieces = backend.zeros(n_local, width);
    for ends in [0, 31, 31, 77, n_columns].windows(2) {
        let inside = |&&(_, column): &&(u32, u32)| (ends[0]..ends[1]).contains(&(column as usize));
        let shifted = |&(row, column): &(u32, u32)| (row, column - ends[0] as u32);
        let piece: Vec<(u32, u32)> = edges.iter().filter(inside).map(shifted).collect();
        let n = ends[1] - ends[0];
        let rows = crate::matrix(n, width, &x.values()[ends[0] * width..ends[1] * width]);
        backend.aggregate(&backend.upload_block(&block(n, &piece)), None, &rows, &mut pieces);
    }
    assert_eq!(crate::bits(whole.values()), crate::bits(pieces.values()));
}

/// Columns with a factor of 0 hold NaN: nobody reads them, and their own gradients stay as they were.
#[test]
fn columns_without_weight_are_left_out() {
    let backend = backend();
    let (n_local, n_columns, width) = (300, 200, 67);
    let edges = edges(5, n_local, n_columns, 3000);
    let adjacency = backend.upload_block(&block(n_columns, &edges));
    let mut scale = crate::real_matrix(6, n_columns, 1);
    for (column, factor) in scale.values_mut().iter_mut().enumerate() {
        match column % 4 {
            0 => *factor = 0.0,
            1 => *factor = -0.0,
            _ => {}
        }
    }
    let is_left_out = |column: usize| column % 4 < 2;
    let finite = crate::real_matrix(7, n_columns, width);
    let mut x = finite.clone();
    for (column, row) in x.values_mut().chunks_exact_mut(width).enumerate() {
        if is_left_out(column) {
            row.fill(f32::NAN);
        }
    }
    let before = crate::real_matrix(8, n_local, width);
    let mut out = before.clone();
    backend.aggregate(&adjacency, Some(&scale), &x, &mut out);
    let expected = gathered(&edges, Some(&scale), &finite, &before);
    assert_eq!(crate::bits(out.values()), crate::bits(&expected));

    let dy = crate::real_matrix(9, n_local, width);
    let mut dx = x.clone();
    backend.aggregate_transposed(&adjacency, Some(&scale), &dy, &mut dx);
    let mut others = finite.clone();
    backend.aggregate_transposed(&adjacency, Some(&scale), &dy, &mut others);
    for column in 0..n_columns {
        let (found, before) = (crate::bits(dx.row(column)), crate::bits(x.row(column)));
        assert_eq!(found == before, is_left_out(column), "column {column}");
        if !is_left_out(column) {
            assert_eq!(found, crate::bits(others.row(column)), "column {column}");
        }
    }
}
