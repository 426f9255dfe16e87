//! What a backend computes, against plain arithmetic in double precision; and its bytes, against the codec.
//!
//! [`follows_the_specification`] runs all of it. Sizes lie around what machines take at once: a vector of 4
//! values, a warp of 32 lanes, a block of 256 threads, a tile of 512 rows; and they may be zero.

mod attention;
mod edges;
mod losses;
mod products;
mod rows;
mod wire;

use sylvie_random::{Coordinates, Family, Pass, Sequence, Stream};
use sylvie_tensor::{Backend, Wire};

pub use attention::attention;
pub use edges::{aggregation, sparse_products};
pub use losses::{adam, losses};
pub use products::dense_products;
pub use rows::{dropout, layer_norm, rows_moved_and_summed};
pub use wire::{bad_messages, bytes_of_the_codec};

/// How far a value may be from the exact one, as a share of the largest.
const TOLERANCE: f64 = 1e-5;

/// Every suite of this module.
pub fn follows_the_specification<B: Wire>(backend: &B) {
    dense_products(backend);
    sparse_products(backend);
    aggregation(backend);
    rows_moved_and_summed(backend);
    layer_norm(backend);
    dropout(backend);
    attention(backend);
    losses(backend);
    adam(backend);
    bytes_of_the_codec(backend);
    bad_messages(backend);
}

/// A matrix on the host: what it is uploaded as, and the same in double precision.
#[derive(Clone, Debug)]
struct Host {
    n_rows: usize,
    n_cols: usize,
    values: Vec<f32>,
}

impl Host {
    /// Uniform in [-2, 2).
    fn random(seed: u64, n_rows: usize, n_cols: usize) -> Self {
        let mut sequence = Sequence::new(Coordinates::new(seed, Stream::Generator).family(), 0);
        let values = (0..n_rows * n_cols).map(|_| (4.0 * sequence.next_f64() - 2.0) as f32);
        Self { n_rows, n_cols, values: values.collect() }
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        f64::from(self.values[row * self.n_cols + col])
    }

    fn row(&self, row: usize) -> Vec<f64> {
        (0..self.n_cols).map(|col| self.at(row, col)).collect()
    }

    fn doubles(&self) -> Vec<f64> {
        self.values.iter().copied().map(f64::from).collect()
    }

    fn on<B: Backend>(&self, backend: &B) -> B::Matrix {
        backend.upload(self.n_rows, self.n_cols, &self.values)
    }
}

/// `n` numbers below `bound`, with repetitions.
fn numbers(seed: u64, n: usize, bound: usize) -> Vec<u32> {
    let mut sequence = Sequence::new(Coordinates::new(seed, Stream::Generator).family(), 1);
    (0..n).map(|_| sequence.below(bound as u32)).collect()
}

/// Some of the numbers below `bound`, each once, ascending: about two of three.
fn some_of(seed: u64, bound: usize) -> Vec<u32> {
    let mut sequence = Sequence::new(Coordinates::new(seed, Stream::Generator).family(), 2);
    (0..bound as u32).filter(|_| sequence.below(3) > 0).collect()
}

fn draws(stream: Stream, seed: u64) -> Family {
    Coordinates::new(seed, stream).at(3, 1, Pass::Forward).family()
}

/// Holds a matrix of the backend to exact values.
fn assert_close<B: Backend>(backend: &B, found: &B::Matrix, expected: &[f64], what: &str) {
    assert_values_close(&backend.download(found), expected, what);
}

fn assert_values_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "number of values of {what}");
    let largest = expected.iter().fold(1.0_f64, |max, value| max.max(value.abs()));
    for (place, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= TOLERANCE * largest, "{what}, {place}: {found} instead of {expected}");
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
