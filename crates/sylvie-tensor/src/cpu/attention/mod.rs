//! Attention over edges with a running softmax, block by block.

mod attended;
mod backward;
mod edges;
mod forward;
mod heads;
mod scores;

pub(super) use self::backward::{block_backward, self_backward};
pub(super) use self::forward::{add_block, begin, finish};
pub(super) use self::heads::{head_dots, head_mean, head_mean_backward};
pub(super) use self::scores::{scores, scores_backward};
use super::CpuMatrix;

/// Slope of LeakyReLU for negative scores.
const NEGATIVE_SLOPE: f32 = 0.2;

#[inline(always)]
fn leaky(score: f32) -> f32 {
    if score > 0.0 { score } else { NEGATIVE_SLOPE * score }
}

#[inline(always)]
fn leaky_slope(score: f32) -> f32 {
    if score > 0.0 { 1.0 } else { NEGATIVE_SLOPE }
}

/// Whether a column with this source score is among those that the softmax is over.
fn takes_part(source: f32) -> bool {
    source != f32::NEG_INFINITY
}

/// Columns of one head.
///
/// # Panics
/// Unless the heads share the columns evenly, at least one each.
fn head_width(x: &CpuMatrix, n_heads: usize) -> usize {
    let n_cols = x.n_cols();
    let is_shared = n_heads > 0 && n_cols >= n_heads && n_cols.is_multiple_of(n_heads);
    assert!(is_shared, "{n_cols} columns for {n_heads} heads");
    n_cols / n_heads
}

/// Whether a gradient has the columns of one head, which all share, where `n_cols` are those of all.
fn is_shared(dy: &CpuMatrix, n_heads: usize, n_cols: usize) -> bool {
    dy.n_cols() * n_heads == n_cols && n_heads > 1
}

fn assert_shape(x: &CpuMatrix, expected: (usize, usize), what: &str) {
    assert_eq!((x.n_rows(), x.n_cols()), expected, "shape of {what}");
}
