//! Sums of gathered rows: the inner loops of aggregation, compiled once for every machine and once for
//! AVX2, chosen at run time.
//!
//! No operation is fused or reordered between the two: they give the same bits. A row's sums stay in
//! registers while its edges are gone through, and rows are asked for some edges ahead of their turn.
// The choice at run time is an unsafe call that the macro writes; asking for memory ahead of time is one
// more.
#![allow(unsafe_code)]

use std::ops::Range;

use multiversion::multiversion;

/// Columns of one register of AVX2.
const LANES: usize = 8;
/// Registers of sums side by side: half of AVX2's, since products take some more.
const REGISTERS: usize = 8;
/// Edges ahead of which a row is asked for.
const AHEAD: usize = 16;
/// Values of a cache line.
const LINE: usize = 16;

/// Rows of `x` to be gathered.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Rows of all edges; those that follow the ones summed are asked for ahead of their turn.
    pub(super) columns: &'a [u32],
    pub(super) x: &'a [f32],
}

/// Asks for the cache line that holds `x[at]`.
#[inline(always)]
pub(super) fn prefetch<T>(x: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(x.as_ptr().wrapping_add(at).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, at);
}

/// Asks for `N` registers of columns, and one more with `TAIL`, of the row that is read `AHEAD` edges later.
#[inline(always)]
fn prefetch_row<const N: usize, const TAIL: bool>(rows: Rows<'_>, edge: usize, place: Place) {
    if let Some(&column) = rows.columns.get(edge + AHEAD) {
        let start = column as usize * place.width + place.first;
        for line in 0..(N + usize::from(TAIL)).div_ceil(LINE / LANES) {
            prefetch(rows.x, start + line * LINE);
        }
    }
}

/// Columns `first..end` of rows of `width` columns.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    end: usize,
    width: usize,
}

/// Values of `N` registers and, with `TAIL`, of one more, which ends where they end and may overlap them.
#[derive(Clone, Copy)]
struct Registers<const N: usize, const TAIL: bool> {
    whole: [[f32; LANES]; N],
    tail: [f32; LANES],
}

impl<const N: usize, const TAIL: bool> Registers<N, TAIL> {
    /// # Panics
    /// If there are fewer values than these registers hold.
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let mut tail = [0.0; LANES];
        let whole = values.as_chunks::<LANES>().0.first_chunk::<N>();
        let whole = *whole.expect("a value for each lane");
        if TAIL {
            tail = *values.last_chunk::<LANES>().expect("a value for each lane");
        }
        Self { whole, tail }
    }

    /// Writes the values back to where they were loaded from.
    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        let end = values.len();
        for (to, from) in values.as_chunks_mut::<LANES>().0.iter_mut().zip(self.whole) {
            *to = from;
        }
        if TAIL {
            values[end - LANES..].copy_from_slice(&self.tail);
        }
    }

    /// Adds `values`, times `factor` where there is one.
    #[expect(
        clippy::needless_range_loop,
        reason = "lengths that are constants keep sums in registers"
    )]
    #[inline(always)]
    fn add(&mut self, factor: Option<f32>, values: &[f32]) {
        let whole = values.as_chunks::<LANES>().0.first_chunk::<N>();
        let (Some(whole), Some(tail)) = (whole, values.last_chunk::<LANES>()) else { return };
        let product = |value| factor.map_or(value, |factor: f32| factor * value);
        for register in 0..N {
            for lane in 0..LANES {
                self.whole[register][lane] += product(whole[register][lane]);
            }
        }
        if TAIL {
            for lane in 0..LANES {
                self.tail[lane] += product(tail[lane]);
            }
        }
    }

    /// Adds the products with `values` to eight sums side by side.
    ///
    /// Whoever wants their sum takes it later, of many at once: between the edges it would keep the registers
    /// from being summed.
    #[expect(
        clippy::needless_range_loop,
        reason = "lengths that are constants keep sums in registers"
    )]
    #[inline(always)]
    fn add_products(&self, values: &[f32], sums: &mut [f32; LANES]) {
        let whole = values.as_chunks::<LANES>().0.first_chunk::<N>();
        let (Some(whole), Some(tail)) = (whole, values.last_chunk::<LANES>()) else { return };
        let mut products = *sums;
        for register in 0..N {
            for lane in 0..LANES {
                products[lane] += self.whole[register][lane] * whole[register][lane];
            }
        }
        if TAIL {
            for lane in 0..LANES {
                products[lane] += self.tail[lane] * tail[lane];
            }
        }
        *sums = products;
    }
}

/// Adds up columns in registers. `factor_of(edge, column)` is the factor of an edge, if it has one; an edge
/// of factor 0 is left out.
#[inline(always)]
fn sum_block<const N: usize, const TAIL: bool>(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    factor_of: impl Fn(usize, usize) -> Option<f32>,
    sums: &mut [f32],
) {
    let Place { first, end, width } = place;
    let mut totals = Registers::<N, TAIL>::load(&sums[first..end]);
    for edge in edges {
        let column = rows.columns[edge] as usize;
        prefetch_row::<N, TAIL>(rows, edge, place);
        let factor = factor_of(edge, column);
        if factor == Some(0.0) {
            continue;
        }
        totals.add(factor, &rows.x[column * width + first..column * width + end]);
    }
    totals.store(&mut sums[first..end]);
}

/// Sums of fewer columns than a register has.
#[inline(always)]
fn sum_narrow(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    factor_of: impl Fn(usize, usize) -> Option<f32>,
    sums: &mut [f32],
) {
    let Place { first, end, width } = place;
    for edge in edges {
        let column = rows.columns[edge] as usize;
        let factor = factor_of(edge, column);
        if factor == Some(0.0) {
            continue;
        }
        let values = &rows.x[column * width + first..column * width + end];
        for (sum, &value) in sums[first..end].iter_mut().zip(values) {
            *sum += match factor {
                Some(factor) => factor * value,
                None => value,
            };
        }
    }
}

/// Columns that go through the edges together, the first of `rest`: all, or as many as leave at least a
/// register for those after them.
#[inline(always)]
fn block_columns(rest: usize) -> usize {
    match rest {
        _ if rest <= REGISTERS * LANES => rest,
        _ if rest < (REGISTERS + 1) * LANES => (REGISTERS - 1) * LANES,
        _ => REGISTERS * LANES,
    }
}

#[inline(always)]
fn sum_any(
    rows: Rows<'_>,
    edges: Range<usize>,
    columns: Place,
    factor_of: impl Fn(usize, usize) -> Option<f32> + Copy,
    sums: &mut [f32],
) {
    if columns.end - columns.first < LANES {
        return sum_narrow(rows, edges, columns, factor_of, sums);
    }
    let mut first = columns.first;
    while first < columns.end {
        let n_cols = block_columns(columns.end - first);
        let place = Place { first, end: first + n_cols, width: columns.width };
        let edges = edges.clone();
        match (n_cols / LANES, !n_cols.is_multiple_of(LANES)) {
            (1, false) => sum_block::<1, false>(rows, edges, place, factor_of, sums),
            (1, true) => sum_block::<1, true>(rows, edges, place, factor_of, sums),
            (2, false) => sum_block::<2, false>(rows, edges, place, factor_of, sums),
            (2, true) => sum_block::<2, true>(rows, edges, place, factor_of, sums),
            (3, false) => sum_block::<3, false>(rows, edges, place, factor_of, sums),
            (3, true) => sum_block::<3, true>(rows, edges, place, factor_of, sums),
            (4, false) => sum_block::<4, false>(rows, edges, place, factor_of, sums),
            (4, true) => sum_block::<4, true>(rows, edges, place, factor_of, sums),
            (5, false) => sum_block::<5, false>(rows, edges, place, factor_of, sums),
            (5, true) => sum_block::<5, true>(rows, edges, place, factor_of, sums),
            (6, false) => sum_block::<6, false>(rows, edges, place, factor_of, sums),
            (6, true) => sum_block::<6, true>(rows, edges, place, factor_of, sums),
            (7, false) => sum_block::<7, false>(rows, edges, place, factor_of, sums),
            (7, true) => sum_block::<7, true>(rows, edges, place, factor_of, sums),
            _ => sum_block::<REGISTERS, false>(rows, edges, place, factor_of, sums),
        }
        first += n_cols;
    }
}

/// `sums += x[columns[edge]]` for each of `edges`, in their order.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_gathered(rows: Rows<'_>, edges: Range<usize>, sums: &mut [f32]) {
    let all = Place { first: 0, end: sums.len(), width: sums.len() };
    sum_any(rows, edges, all, |_, _| None, sums);
}

/// `sums += factors[columns[edge]] * x[columns[edge]]` for each of `edges`, in their order; rows of factor
/// 0 are left out.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_gathered_scaled(
    rows: Rows<'_>,
    edges: Range<usize>,
    factors: &[f32],
    sums: &mut [f32],
) {
    let all = Place { first: 0, end: sums.len(), width: sums.len() };
    sum_any(rows, edges, all, |_, column| Some(factors[column]), sums);
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
    let (start, width) = (edges.start, sums.len());
    for head in 0..n_heads {
        let n_cols = width / n_heads;
        let place = Place { first: head * n_cols, end: (head + 1) * n_cols, width };
        let weight = |edge: usize, _| Some(weights[(edge - start) * n_heads + head]);
        sum_any(rows, edges.clone(), place, weight, sums);
    }
}

/// Sums side by side, whose own sum is a dot product.
pub(super) type Lanes = [f32; LANES];

/// The sum of sums side by side.
pub(super) fn sum_lanes([a, b, c, d, e, f, g, h]: Lanes) -> f32 {
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Of a block of columns: adds each edge's weight times its row to `sums`, and its row times `own` to
/// `dots`.
#[inline(always)]
fn back_block<const N: usize, const TAIL: bool>(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    own: &[f32],
    (weights, dots, stride): (&[f32], &mut [Lanes], usize),
    sums: &mut [f32],
) {
    let (Place { first, end, width }, start) = (place, edges.start);
    let mut totals = Registers::<N, TAIL>::load(&sums[first..end]);
    let mut own = Registers::<N, TAIL>::load(&own[first..end]);
    // Columns that two registers have count once.
    own.tail[..(LANES - (end - first) % LANES) % LANES].fill(0.0);
    for edge in edges {
        let column = rows.columns[edge] as usize;
        prefetch_row::<N, TAIL>(rows, edge, place);
        let weight = weights[(edge - start) * stride];
        if weight == 0.0 {
            continue;
        }
        let values = &rows.x[column * width + first..column * width + end];
        totals.add(Some(weight), values);
        own.add_products(values, &mut dots[(edge - start) * stride]);
    }
    totals.store(&mut sums[first..end]);
}

/// The same for fewer columns than a register has.
#[inline(always)]
fn back_narrow(
    rows: Rows<'_>,
    edges: Range<usize>,
    place: Place,
    own: &[f32],
    (weights, dots, stride): (&[f32], &mut [Lanes], usize),
    sums: &mut [f32],
) {
    let Place { first, end, width } = place;
    let start = edges.start;
    for edge in edges {
        let column = rows.columns[edge] as usize;
        let weight = weights[(edge - start) * stride];
        if weight == 0.0 {
            continue;
        }
        let mut dot = 0.0;
        for at in first..end {
            let value = rows.x[column * width + at];
            sums[at] += weight * value;
            dot += own[at] * value;
        }
        dots[(edge - start) * stride][0] += dot;
    }
}

/// Head by head, for each of `edges` in their order: `sums += weight * x[columns[edge]]`, and
/// `dots += own . x[columns[edge]]`; `weights` and `dots` have one entry an edge and head. A head of
/// weight 0 is left out.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_attended_back(
    rows: Rows<'_>,
    edges: Range<usize>,
    own: &[f32],
    (weights, dots, n_heads): (&[f32], &mut [Lanes], usize),
    sums: &mut [f32],
) {
    let (width, n_cols) = (sums.len(), sums.len() / n_heads);
    if edges.is_empty() {
        return;
    }
    for head in 0..n_heads {
        let mut first = head * n_cols;
        let end = first + n_cols;
        while first < end {
            let n_block = block_columns(end - first);
            let place = Place { first, end: first + n_block, width };
            let (edges, of_head) = (edges.clone(), (&weights[head..], &mut dots[head..], n_heads));
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
            first += n_block;
        }
    }
}
