//! Weighted sums of gathered rows, heads side by side, and the products that go back with them: compiled
//! once for every machine and once for AVX2, chosen at run time.
//!
//! As many heads as fit the registers go through the edges together, so that a row is gathered in as few
//! pieces as possible. No operation is fused or reordered between the two: they give the same bits.
// The choice at run time is an unsafe call that the macro writes.
#![allow(unsafe_code)]

use std::ops::Range;

use multiversion::multiversion;

use super::edges::Quad;
use crate::cpu::gather::{
    LANES, Place, REGISTERS, Registers, Rows, block_columns, prefetch_row, sum_any,
};

/// The columns of one register.
type Lanes = [f32; LANES];

/// Most heads that go through the edges together.
const GROUP: usize = 4;

/// Heads of so many columns that go through the edges together; each has whole registers.
#[inline(always)]
fn heads_together(n_cols: usize) -> usize {
    match n_cols / LANES {
        _ if !n_cols.is_multiple_of(LANES) => 1,
        1 | 2 => 4,
        3 | 4 => 2,
        _ => 1,
    }
}

/// Columns of the heads that go through a row's edges first, where several do so together: whoever reads
/// what comes with the edges asks for these, and the heads before ask for those after them.
pub(super) fn first_columns(n_heads: usize, n_cols: usize) -> usize {
    match heads_together(n_cols) {
        n if n > 1 && n <= n_heads => n * n_cols,
        _ => 0,
    }
}

/// Values with zeros in heads of weight 0, where they may be anything; a head has `R` registers.
#[cold]
#[inline(never)]
fn without_idle<const N: usize, const R: usize>(
    weights: &[f32],
    values: &[Lanes; N],
) -> [Lanes; N] {
    std::array::from_fn(|register| match weights[register / R] {
        0.0 => Lanes::default(),
        _ => values[register],
    })
}

/// The columns of an edge's row, for heads of `R` registers; `None` where all have weight 0. Where some
/// have, the others' values are kept in `kept`.
#[inline(always)]
fn values_of<'a, const N: usize, const R: usize>(
    rows: Rows<'a>,
    edge: usize,
    place: Place,
    weights: &[f32],
    kept: &'a mut [Lanes; N],
) -> Option<&'a [Lanes; N]> {
    let following = Place { first: place.end, ..place };
    if following.first < place.width {
        prefetch_row::<N, false>(rows, edge, following);
    }
    let start = rows.columns[edge] as usize * place.width;
    let values = &rows.x[start + place.first..start + place.end];
    let values = values.as_chunks::<LANES>().0.first_chunk::<N>()?;
    if !weights.contains(&0.0) {
        return Some(values);
    }
    if weights.iter().all(|&weight| weight == 0.0) {
        return None;
    }
    *kept = without_idle::<N, R>(weights, values);
    Some(kept)
}

/// Adds each edge's weights times its row to `sums`, heads of `R` registers.
#[expect(clippy::needless_range_loop, reason = "lengths that are constants keep sums in registers")]
#[inline(always)]
fn sum_heads<const N: usize, const R: usize>(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    (weights, stride): (&[f32], usize),
    sums: &mut [f32],
) {
    let mut totals = Registers::<N, false>::load(&sums[place.first..place.end]);
    let mut kept = [Lanes::default(); N];
    for (offset, edge) in edges.enumerate() {
        let weights = &weights[offset * stride..][..N / R];
        let values = values_of::<N, R>(rows, edge, place, weights, &mut kept);
        let Some(values) = values else { continue };
        for register in 0..N {
            for lane in 0..LANES {
                totals.whole[register][lane] += weights[register / R] * values[register][lane];
            }
        }
    }
    totals.store(&mut sums[place.first..place.end]);
}

/// Head by head, `sums += weight * x[columns[edge]]` for each of `edges`, in their order; `weights` has
/// one number an edge and head. A head of weight 0 is left out.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_attended(
    rows: Rows<'_>,
    edges: Range<usize>,
    (weights, n_heads): (&[f32], usize),
    sums: &mut [f32],
) {
    let (width, n_cols) = (sums.len(), sums.len() / n_heads);
    let mut head = 0;
    while head < n_heads {
        let n_together = match heads_together(n_cols) {
            n if head + n <= n_heads => n,
            _ => 1,
        };
        let place = Place { first: head * n_cols, end: (head + n_together) * n_cols, width };
        let (edges, start) = (edges.clone(), edges.start);
        let of_heads = (&weights[head..], n_heads);
        match (n_together, n_cols / LANES) {
            (4, 1) => sum_heads::<4, 1>(rows, edges, place, of_heads, sums),
            (4, 2) => sum_heads::<8, 2>(rows, edges, place, of_heads, sums),
            (2, 3) => sum_heads::<6, 3>(rows, edges, place, of_heads, sums),
            (2, 4) => sum_heads::<8, 4>(rows, edges, place, of_heads, sums),
            _ => {
                let weight = |edge: usize, _| Some(weights[(edge - start) * n_heads + head]);
                sum_any(rows, edges, place, weight, sums);
            }
        }
        head += n_together;
    }
}

/// Sums of the lanes that are four apart.
#[inline(always)]
fn half(products: &Lanes) -> Quad {
    std::array::from_fn(|lane| products[lane] + products[lane + 4])
}

/// Adds each edge's weights times its row to `sums`, and assigns the products of its row with `own`, heads
/// of `R` registers. `own` and `sums` have the place's columns alone, here and below.
#[inline(always)]
fn back_heads<const N: usize, const R: usize>(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    own: &[f32],
    (weights, dots, stride): (&[f32], &mut [Quad], usize),
    sums: &mut [f32],
) {
    let (mut totals, own) = (Registers::<N, false>::load(sums), Registers::<N, false>::load(own));
    let mut kept = [Lanes::default(); N];
    for (offset, edge) in edges.enumerate() {
        let weights = &weights[offset * stride..][..N / R];
        let values = values_of::<N, R>(rows, edge, place, weights, &mut kept);
        let Some(values) = values else { continue };
        let mut products = [Lanes::default(); GROUP];
        for register in 0..N {
            for lane in 0..LANES {
                let value = values[register][lane];
                totals.whole[register][lane] += weights[register / R] * value;
                products[register / R][lane] += own.whole[register][lane] * value;
            }
        }
        for (dot, products) in dots[offset * stride..][..N / R].iter_mut().zip(&products) {
            *dot = half(products);
        }
    }
    totals.store(sums);
}

/// Of a block of one head's columns: adds each edge's weight times its row to `sums`, and its row times
/// `own` to `dots`.
#[expect(clippy::needless_range_loop, reason = "lengths that are constants keep sums in registers")]
#[inline(always)]
fn back_block<const N: usize, const TAIL: bool>(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    own: &[f32],
    (weights, dots, stride): (&[f32], &mut [Quad], usize),
    sums: &mut [f32],
) {
    let Place { first, end, width } = place;
    let mut totals = Registers::<N, TAIL>::load(sums);
    let mut own = Registers::<N, TAIL>::load(own);
    // Columns that two registers have count once.
    own.tail[..(LANES - (end - first) % LANES) % LANES].fill(0.0);
    for (offset, edge) in edges.enumerate() {
        let column = rows.columns[edge] as usize;
        prefetch_row::<N, TAIL>(rows, edge, place);
        let weight = weights[offset * stride];
        if weight == 0.0 {
            continue;
        }
        let values = &rows.x[column * width + first..column * width + end];
        totals.add(Some(weight), values);
        let whole = values.as_chunks::<LANES>().0.first_chunk::<N>();
        let (Some(whole), Some(tail)) = (whole, values.last_chunk::<LANES>()) else { return };
        // Whoever wants the sum of these takes it later, of many at once: between the edges it would keep
        // the registers from being summed.
        let mut products = Lanes::default();
        for register in 0..N {
            for lane in 0..LANES {
                products[lane] += own.whole[register][lane] * whole[register][lane];
            }
        }
        if TAIL {
            for lane in 0..LANES {
                products[lane] += own.tail[lane] * tail[lane];
            }
        }
        let (dot, products) = (&mut dots[offset * stride], half(&products));
        for lane in 0..products.len() {
            dot[lane] += products[lane];
        }
    }
    totals.store(sums);
}

/// The same for fewer columns than a register has.
#[inline(always)]
fn back_narrow(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    own: &[f32],
    (weights, dots, stride): (&[f32], &mut [Quad], usize),
    sums: &mut [f32],
) {
    let Place { first, end, width } = place;
    for (offset, edge) in edges.enumerate() {
        let column = rows.columns[edge] as usize;
        let weight = weights[offset * stride];
        if weight == 0.0 {
            continue;
        }
        let mut dot = 0.0;
        let values = &rows.x[column * width + first..column * width + end];
        for ((sum, own), value) in sums.iter_mut().zip(own).zip(values) {
            *sum += weight * value;
            dot += own * value;
        }
        dots[offset * stride][0] += dot;
    }
}

/// One head, block of columns after block.
#[inline(always)]
fn back_head(
    rows: Rows<'_>,
    edges: Range<usize>,
    head: Place,
    own: &[f32],
    (weights, dots, stride): (&[f32], &mut [Quad], usize),
    sums: &mut [f32],
) {
    dots.iter_mut().step_by(stride).take(edges.len()).for_each(|dots| *dots = Quad::default());
    let mut done = 0;
    while done < sums.len() {
        let n_block = block_columns(sums.len() - done);
        let first = head.first + done;
        let place = Place { first, end: first + n_block, ..head };
        let (own, sums) = (&own[done..done + n_block], &mut sums[done..done + n_block]);
        let (edges, of_head) = (edges.clone(), (weights, &mut *dots, stride));
        match (n_block / LANES, !n_block.is_multiple_of(LANES)) {
            (0, _) => back_narrow(rows, edges, place, own, of_head, sums),
            (1, false) => back_block::<1, false>(rows, edges, place, own, of_head, sums),
            (1, true) => back_block::<1, true>(rows, edges, place, own, of_head, sums),
            (2, false) => back_block::<2, false>(rows, edges, place, own, of_head, sums),
            (2, true) => back_block::<2, true>(rows, edges, place, own, of_head, sums),
            (3, false) => back_block::<3, false>(rows, edges, place, own, of_head, sums),
            (3, true) => back_block::<3, true>(rows, edges, place, own, of_head, sums),
            (4, false) => back_block::<4, false>(rows, edges, place, own, of_head, sums),
            (4, true) => back_block::<4, true>(rows, edges, place, own, of_head, sums),
            (5, false) => back_block::<5, false>(rows, edges, place, own, of_head, sums),
            (5, true) => back_block::<5, true>(rows, edges, place, own, of_head, sums),
            (6, false) => back_block::<6, false>(rows, edges, place, own, of_head, sums),
            (6, true) => back_block::<6, true>(rows, edges, place, own, of_head, sums),
            (7, false) => back_block::<7, false>(rows, edges, place, own, of_head, sums),
            (7, true) => back_block::<7, true>(rows, edges, place, own, of_head, sums),
            _ => back_block::<REGISTERS, false>(rows, edges, place, own, of_head, sums),
        }
        done += n_block;
    }
}

/// Head by head, for each of `edges` in their order: `sums += weight * x[columns[edge]]`, and `dots`
/// becomes `own . x[columns[edge]]`; `weights` and `dots` have one entry an edge and head. A head of
/// weight 0 is left out, and what its dots become means nothing. Rows of `width` columns are those of all
/// heads, or one head's, which all share.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_attended_back(
    (rows, width): (Rows<'_>, usize),
    edges: Range<usize>,
    own: &[f32],
    (weights, dots, n_heads): (&[f32], &mut [Quad], usize),
    sums: &mut [f32],
) {
    let n_cols = sums.len() / n_heads;
    let is_shared = width < sums.len();
    if edges.is_empty() {
        return;
    }
    let mut head = 0;
    while head < n_heads {
        let n_together = match heads_together(n_cols) {
            n if head + n <= n_heads && !is_shared => n,
            _ => 1,
        };
        let columns = head * n_cols..(head + n_together) * n_cols;
        let first = if is_shared { 0 } else { columns.start };
        let place = Place { first, end: first + columns.len(), width };
        let (own, sums) = (&own[columns.clone()], &mut sums[columns]);
        let (edges, of_heads) = (edges.clone(), (&weights[head..], &mut dots[head..], n_heads));
        match (n_together, n_cols / LANES) {
            (4, 1) => back_heads::<4, 1>(rows, edges, place, own, of_heads, sums),
            (4, 2) => back_heads::<8, 2>(rows, edges, place, own, of_heads, sums),
            (2, 3) => back_heads::<6, 3>(rows, edges, place, own, of_heads, sums),
            (2, 4) => back_heads::<8, 4>(rows, edges, place, own, of_heads, sums),
            _ => back_head(rows, edges, place, own, of_heads, sums),
        }
        head += n_together;
    }
}
