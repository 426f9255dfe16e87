//! The CPU backend held to obvious scalar versions, and to the same bits on any number of threads.

mod adam;
mod aggregation;
mod attention;
mod buffers;
mod conformance;
mod dropout;
mod fused;
mod gathering;
mod losses;
mod packed;
mod products;
mod row_wise;
mod scatter;
mod shapes;
mod threads;
mod wire;

use proptest::prelude::*;
use sylvie_graph::{Block, Csr, SparseMatrix};
use sylvie_random::{Coordinates, Family, Pass, Sequence, Stream};
use sylvie_tensor::{Backend, CpuBackend, Mode};

type Matrix = <CpuBackend as Backend>::Matrix;

const MODES: [Mode; 2] = [Mode::Assign, Mode::Add];

/// Row counts: mostly few, sometimes just around the chunks that work is cut into.
fn row_counts() -> impl Strategy<Value = usize> {
    let around_chunks = vec![127, 128, 129, 511, 512, 513, 2047, 2048, 2049, 4096, 4097];
    prop_oneof![3 => 0..40_usize, 1 => proptest::sample::select(around_chunks)]
}

fn backend() -> CpuBackend {
    CpuBackend::new(1)
}

fn sequence(seed: u64) -> Sequence {
    Sequence::new(Coordinates::new(seed, Stream::Generator).family(), 0)
}

/// Uniform in [-2, 2).
fn reals(seed: u64, n: usize) -> Vec<f32> {
    let mut sequence = sequence(seed);
    (0..n).map(|_| (4.0 * sequence.next_f64() - 2.0) as f32).collect()
}

/// Whole numbers from -8 to 8: sums and products of them are exact in f32, in any order.
fn integers(seed: u64, n: usize) -> Vec<f32> {
    let mut sequence = sequence(seed);
    (0..n).map(|_| sequence.below(17) as f32 - 8.0).collect()
}

fn matrix(n_rows: usize, n_cols: usize, values: &[f32]) -> Matrix {
    backend().upload(n_rows, n_cols, values)
}

fn real_matrix(seed: u64, n_rows: usize, n_cols: usize) -> Matrix {
    matrix(n_rows, n_cols, &reals(seed, n_rows * n_cols))
}

fn integer_matrix(seed: u64, n_rows: usize, n_cols: usize) -> Matrix {
    matrix(n_rows, n_cols, &integers(seed, n_rows * n_cols))
}

/// What `mode` makes of a result on top of what the output held.
fn expected(mode: Mode, before: &Matrix, result: &Matrix) -> Vec<f32> {
    let kept = if mode == Mode::Add { 1.0 } else { 0.0 };
    before.values().iter().zip(result.values()).map(|(b, r)| kept * b + r).collect()
}

/// The values of `x` that are not zero.
fn sparse(x: &Matrix) -> SparseMatrix {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..x.n_rows() {
        for (column, &value) in (0..).zip(x.row(row)) {
            if value != 0.0 {
                indices.push(column);
                values.push(value);
            }
        }
        indptr.push(indices.len() as u64);
    }
    SparseMatrix::new(x.n_cols(), &indptr, &indices, &values).expect("a sparse matrix")
}

/// Random edges as (local row, column), each at most once, ascending.
fn edges(seed: u64, n_local: usize, n_columns: usize, n_edges: usize) -> Vec<(u32, u32)> {
    if n_local == 0 || n_columns == 0 {
        return Vec::new();
    }
    let mut sequence = sequence(seed);
    let mut below = |bound: usize| sequence.below(bound as u32);
    let mut edges: Vec<_> = (0..n_edges).map(|_| (below(n_local), below(n_columns))).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The edges of one block, rows without any left out as a part does.
fn block(n_columns: usize, edges: &[(u32, u32)]) -> Block {
    let mut rows: Vec<u32> = edges.iter().map(|edge| edge.0).collect();
    rows.dedup();
    let place = |row| rows.binary_search(&row).expect("a row with an edge") as u32;
    let pairs: Vec<_> = edges.iter().map(|&(row, column)| (place(row), column)).collect();
    let edges = Csr::from_pairs(rows.len(), n_columns, &pairs).expect("edges of a block");
    Block {
        owner: 0,
        column_ids: (0..n_columns as u32).collect(),
        column_degrees: vec![0; n_columns],
        rows,
        edges,
    }
}

fn dropout_draws(seed: u64) -> Family {
    Coordinates::new(seed, Stream::Dropout).at(3, 1, Pass::Forward).family()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Asserts that f32 results are those of f64 arithmetic up to `tolerance` times the largest of them.
fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "number of values of {what}");
    let largest = expected.iter().fold(1.0_f64, |max, value| max.max(value.abs()));
    for (place, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= tolerance * largest, "{what}, {place}: {found} instead of {expected}");
    }
}
