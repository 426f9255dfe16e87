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
pub(super) const LANES: usize = 8;
/// Registers of sums side by side: half of AVX2's, since products take some more.
pub(super) const REGISTERS: usize = 8;
/// Edges ahead of which a row is asked for.
pub(super) const AHEAD: usize = 16;
/// Values of a cache line, or words of 32 bits.
pub(super) const LINE: usize = 16;

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
pub(super) fn prefetch_row<const N: usize, const TAIL: bool>(
    rows: Rows<'_>,
    edge: usize,
    place: Place,
) {
    if let Some(&column) = rows.columns.get(edge + AHEAD) {
        let start = column as usize * place.width + place.first;
        for line in 0..(N + usize::from(TAIL)).div_ceil(LINE / LANES) {
            prefetch(rows.x, start + line * LINE);
        }
        if TAIL {
            // Such rows begin anywhere in a line, and most of them end in one more.
            prefetch(rows.x, start + place.end - place.first - 1);
        }
    }
}

/// Columns `first..end` of rows of `width` columns.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) width: usize,
}

/// Values of `N` registers and, with `TAIL`, of one more, which ends where they end and may overlap them.
#[derive(Clone, Copy)]
pub(super) struct Registers<const N: usize, const TAIL: bool> {
    pub(super) whole: [[f32; LANES]; N],
    pub(super) tail: [f32; LANES],
}

impl<const N: usize, const TAIL: bool> Registers<N, TAIL> {
    /// # Panics
    /// If there are fewer values than these registers hold.
    #[inline(always)]
    pub(super) fn load(values: &[f32]) -> Self {
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
    pub(super) fn store(self, values: &mut [f32]) {
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
    pub(super) fn add(&mut self, factor: Option<f32>, values: &[f32]) {
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
pub(super) fn block_columns(rest: usize) -> usize {
    match rest {
        _ if rest <= REGISTERS * LANES => rest,
        _ if rest < (REGISTERS + 1) * LANES => (REGISTERS - 1) * LANES,
        _ => REGISTERS * LANES,
    }
}

#[inline(always)]
pub(super) fn sum_any(
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
