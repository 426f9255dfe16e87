//! Scores, weights and their gradients, edge by edge: compiled once for every machine and once for AVX2,
//! chosen at run time.
//!
//! Numbers of edges and heads lie edge by edge, and are computed eight at a time. In eight edges each head
//! comes eight times, so that what belongs to heads is written out as often, as a *pattern*. Lists of edges
//! are filled up to a multiple of eight with edges that take no part. No operation is fused or reordered
//! between the two: they give the same bits.
// The choice at run time is an unsafe call that the macro writes.
#![allow(unsafe_code)]

use std::ops::Range;

use multiversion::multiversion;

use super::{leaky, leaky_slope};
use crate::cpu::gather::{AHEAD, LANES, LINE, prefetch};
use crate::cpu::kernels::exp_all;

/// Numbers in a list of so many edges with all their heads, filled up.
pub(super) fn list_len(n_edges: usize, n_heads: usize) -> usize {
    n_edges.next_multiple_of(LANES) * n_heads
}

/// A pattern for so many heads.
pub(super) fn pattern(n_heads: usize) -> Vec<f32> {
    vec![0.0; LANES * n_heads]
}

/// Writes out what belongs to heads.
pub(super) fn spread(heads: impl Iterator<Item = f32>, pattern: &mut [f32]) {
    let n_heads = pattern.len() / LANES;
    for (value, head) in pattern.iter_mut().zip(heads) {
        *value = head;
    }
    for n_edges in [1, 2, 4] {
        pattern.copy_within(..n_edges * n_heads, n_edges * n_heads);
    }
}

/// The largest of each head, in a pattern's first numbers.
pub(super) fn fold_largest(pattern: &mut [f32]) {
    let n_heads = pattern.len() / LANES;
    for n_edges in [4, 2, 1] {
        let (these, others) = pattern.split_at_mut(n_edges * n_heads);
        for (this, &mut other) in these.iter_mut().zip(others) {
            *this = if other > *this { other } else { *this };
        }
    }
}

/// Rows of values that are asked for while what comes with their edges is read, so that they arrive while
/// that is computed.
#[derive(Clone, Copy)]
pub(super) struct Coming<'a> {
    pub(super) x: &'a [f32],
    pub(super) width: usize,
    /// Columns that are asked for, the first of a row.
    pub(super) n_cols: usize,
}

impl Coming<'_> {
    #[inline(always)]
    fn ask(self, row: u32) {
        let start = row as usize * self.width;
        for at in (0..self.n_cols).step_by(LINE) {
            prefetch(self.x, start + at);
        }
    }
}

/// Calls a function with the number of heads as a constant where it is a usual one.
macro_rules! by_heads {
    ($n_heads:expr, $gather:ident($($argument:expr),*)) => {
        match $n_heads {
            1 => $gather::<1>($($argument),*),
            2 => $gather::<2>($($argument),*),
            4 => $gather::<4>($($argument),*),
            8 => $gather::<8>($($argument),*),
            _ => $gather::<0>($($argument),*),
        }
    };
}

/// Copies what rows have for their heads, and fills up with `last`; rows are asked for ahead of their turn.
/// `columns` has those of all edges. `H` heads, or any number where it is 0.
#[inline(always)]
fn copy_heads<const H: usize>(
    from: &[f32],
    n_heads: usize,
    (columns, edges): (&[u32], Range<usize>),
    coming: Coming<'_>,
    to: &mut [f32],
) {
    let n_heads = if H == 0 { n_heads } else { H };
    let (values, rest) = to.split_at_mut(edges.len() * n_heads);
    for (edge, values) in edges.zip(values.chunks_exact_mut(n_heads)) {
        if let Some(&later) = columns.get(edge + AHEAD) {
            prefetch(from, later as usize * n_heads);
            coming.ask(later);
        }
        let at = columns[edge] as usize * n_heads;
        values.copy_from_slice(&from[at..at + n_heads]);
    }
    rest.fill(f32::NEG_INFINITY);
}

/// Source scores of a row's edges.
pub(super) fn source_scores(
    source: &[f32],
    n_heads: usize,
    edges: (&[u32], Range<usize>),
    coming: Coming<'_>,
    scores: &mut [f32],
) {
    by_heads!(n_heads, copy_heads(source, n_heads, edges, coming, scores));
}

/// Turns source scores into scores, by the pattern of the target's, and raises the pattern of the largest.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn score_edges(target: &[f32], scores: &mut [f32], largest: &mut [f32]) {
    for scores in scores.chunks_exact_mut(target.len()) {
        for ((score, target), largest) in scores.iter_mut().zip(target).zip(largest.iter_mut()) {
            let found = leaky(*score + target);
            *score = found;
            *largest = if found > *largest { found } else { *largest };
        }
    }
}

/// Turns scores into weights, by the pattern of what is the largest.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn weigh_edges(largest: &[f32], weights: &mut [f32]) {
    for scores in weights.chunks_exact_mut(largest.len()) {
        scores.iter_mut().zip(largest).for_each(|(score, largest)| *score -= largest);
    }
    exp_all(weights);
}

/// Sums of products side by side, whose own sum is a dot product.
pub(super) type Quad = [f32; 4];

/// What goes back along edges.
pub(super) struct Back {
    /// Target scores, then slopes.
    pub(super) slopes: Vec<f32>,
    /// Logs of sums, then weights.
    pub(super) weights: Vec<f32>,
    /// Products of gradient and output.
    pub(super) dots: Vec<f32>,
    /// Gradients of weights, an entry an edge and head whose sum they are.
    pub(super) products: Vec<Quad>,
    /// Halves of these sums.
    pairs: Vec<f32>,
    /// Gradients of weights, then of scores.
    pub(super) gradients: Vec<f32>,
}

impl Back {
    /// Room for what goes back along at most `n_edges` edges.
    pub(super) fn new(n_edges: usize, n_heads: usize) -> Self {
        let n = list_len(n_edges, n_heads);
        let list = || vec![0.0; n];
        let (slopes, weights, dots, gradients) = (list(), list(), list(), list());
        let (products, pairs) = (vec![Quad::default(); n], vec![0.0; 2 * n]);
        Self { slopes, weights, dots, products, pairs, gradients }
    }

    /// The gradients of the scores of `n` edges and heads.
    pub(super) fn score_gradients(&mut self, n: usize) -> &[f32] {
        let gradients = &mut self.gradients[..n];
        halve(self.products[..n].as_flattened(), &mut self.pairs[..2 * n]);
        halve(&self.pairs[..2 * n], gradients);
        let (weights, slopes, dots) = (&self.weights[..n], &self.slopes[..n], &self.dots[..n]);
        to_score_gradients(weights, slopes, dots, gradients);
        gradients
    }
}

/// Numbers that a column's readers have side by side for each head, the fourth to fill a cache line.
pub(super) const STATISTICS: usize = 4;

/// Copies what a column's readers have side by side: target scores, logs of sums, and dots. As
/// [`copy_heads`].
#[inline(always)]
fn copy_statistics<const H: usize>(
    from: &[f32],
    n_heads: usize,
    (readers, edges): (&[u32], Range<usize>),
    coming: Coming<'_>,
    [targets, log_sums, dots]: [&mut [f32]; 3],
) {
    let n_heads = if H == 0 { n_heads } else { H };
    let (n, stride) = (edges.len() * n_heads, STATISTICS * n_heads);
    targets[n..].fill(f32::NEG_INFINITY);
    log_sums[n..].fill(0.0);
    dots[n..].fill(0.0);
    let to = targets.chunks_exact_mut(n_heads).zip(log_sums.chunks_exact_mut(n_heads));
    let to = to.zip(dots.chunks_exact_mut(n_heads));
    for (edge, ((target, log_sum), dot)) in edges.zip(to) {
        if let Some(&later) = readers.get(edge + AHEAD) {
            prefetch(from, later as usize * stride);
            coming.ask(later);
        }
        let at = readers[edge] as usize * stride;
        let row = &from[at..at + stride];
        target.copy_from_slice(&row[..n_heads]);
        log_sum.copy_from_slice(&row[n_heads..2 * n_heads]);
        dot.copy_from_slice(&row[2 * n_heads..3 * n_heads]);
    }
}

/// What a column's edges bring with them, before it is weighed.
pub(super) fn statistics_of_edges(
    from: &[f32],
    n_heads: usize,
    edges: (&[u32], Range<usize>),
    coming: Coming<'_>,
    back: &mut Back,
) {
    let n = list_len(edges.1.len(), n_heads);
    let to = [&mut back.slopes, &mut back.weights, &mut back.dots].map(|list| &mut list[..n]);
    by_heads!(n_heads, copy_statistics(from, n_heads, edges, coming, to));
}

/// Turns target scores into slopes and logs of sums into weights, by the pattern of source scores. A column
/// that takes no part gets weights of 0.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn weigh_back(source: &[f32], slopes: &mut [f32], weights: &mut [f32]) {
    let n = source.len();
    for (slopes, weights) in slopes.chunks_exact_mut(n).zip(weights.chunks_exact_mut(n)) {
        for ((slope, weight), source) in slopes.iter_mut().zip(weights).zip(source) {
            let score = *slope + source;
            let lowered = leaky(score) - *weight;
            *weight = if score == f32::NEG_INFINITY { score } else { lowered };
            *slope = leaky_slope(score);
        }
    }
    exp_all(weights);
}

/// Sums of neighbours.
#[multiversion(targets("x86_64+avx2"))]
fn halve(values: &[f32], sums: &mut [f32]) {
    for (sum, [a, b]) in sums.iter_mut().zip(values.as_chunks::<2>().0) {
        *sum = a + b;
    }
}

/// Turns gradients of weights into those of scores.
#[multiversion(targets("x86_64+avx2"))]
fn to_score_gradients(weights: &[f32], slopes: &[f32], dots: &[f32], gradients: &mut [f32]) {
    let lists = weights.iter().zip(slopes).zip(dots);
    for (gradient, ((&weight, slope), dot)) in gradients.iter_mut().zip(lists) {
        let product = weight * (*gradient - dot) * slope;
        *gradient = if weight == 0.0 { 0.0 } else { product };
    }
}

/// Adds up what rows have for heads, in their order. `H` heads, or any number where it is 0.
#[inline(always)]
fn add_heads<'a, const H: usize>(rows: impl Iterator<Item = &'a [f32]>, sums: &mut [f32]) {
    // Sums of a constant number stay in registers.
    let mut totals = [0.0; H];
    totals.copy_from_slice(&sums[..H]);
    for row in rows {
        if H == 0 {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        } else if let Some(row) = row.first_chunk::<H>() {
            totals.iter_mut().zip(row).for_each(|(total, value)| *total += value);
        }
    }
    sums[..H].copy_from_slice(&totals);
}

/// `sums += row` for each of `rows` of a number a head, in their order.
pub(super) fn add_rows(rows: &[f32], sums: &mut [f32]) {
    let rows = rows.chunks_exact(sums.len());
    by_heads!(sums.len(), add_heads(rows, sums));
}

/// `sums += x[places[edge]]` for each of `edges`, in their order, for rows of a number a head; they are
/// asked for ahead of their turn.
pub(super) fn add_rows_at<P: Copy + Into<u64>>(
    x: &[f32],
    (places, edges): (&[P], Range<usize>),
    sums: &mut [f32],
) {
    let n_heads = sums.len();
    let start = |place: P| place.into() as usize * n_heads;
    let rows = edges.map(|edge| {
        // There is little to do with a row.
        if let Some(&later) = places.get(edge + 4 * AHEAD) {
            prefetch(x, start(later));
        }
        &x[start(places[edge])..][..n_heads]
    });
    by_heads!(n_heads, add_heads(rows, sums));
}

#[cfg(test)]
mod tests {
    use super::add_rows_at;

    #[test]
    fn rows_are_added_whatever_the_heads_and_the_length_of_places() {
        for n_heads in 1..10 {
            let x: Vec<f32> = (0..5 * n_heads).map(|at| at as f32).collect();
            let (short, long) = ([9_u32, 4, 0, 4], [9_u64, 4, 0, 4]);
            let (mut sums, mut others) = (vec![1.0; n_heads], vec![1.0; n_heads]);
            add_rows_at(&x, (&short[..], 1..4), &mut sums);
            add_rows_at(&x, (&long[..], 1..4), &mut others);
            let sum = |head| (1 + 8 * n_heads + 3 * head) as f32;
            assert_eq!(sums, (0..n_heads).map(sum).collect::<Vec<_>>());
            assert_eq!(sums, others);
        }
    }
}
