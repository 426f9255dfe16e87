//! Sums over neighbours from rows in bf16: half of the bytes are gathered, and added in f32.
//!
//! No operation is fused or reordered between the version for every machine and that for AVX2: they give the
//! same bits.
// The choice at run time is an unsafe call that the macro writes.
#![allow(unsafe_code)]

use std::ops::Range;

use multiversion::multiversion;

use super::gather::{AHEAD, LANES, LINE, prefetch};
use super::matrix::CpuMatrix;
use super::pool::Pool;
use super::threads::{CHUNK_ROWS, Threads};

/// Columns of a group. Each of its eight words holds two of them, eight columns apart: the first in its
/// lower half. So a shift makes one register of a group's words, and a mask another, and none is shuffled.
const GROUP: usize = 2 * LANES;
/// Groups summed side by side: with two registers each, half of AVX2's.
const GROUPS: usize = 4;

/// Words of a row of `n_cols` columns, the last group filled up with zeros.
fn row_words(n_cols: usize) -> usize {
    n_cols.div_ceil(GROUP) * LANES
}

/// Rows in bf16, rounded to nearest, ties to even. Those that were not packed hold anything.
pub(super) struct Bf16Rows {
    words: CpuMatrix,
}

impl Bf16Rows {
    /// Packs rows of `x`, times their entry of `factors` where there are any; what a factor of 0 stands
    /// with is not read, and becomes zeros. `listed` are the rows to pack, ascending; all, if there is no
    /// list.
    pub(super) fn new(
        (threads, pool): (&Threads, &Pool),
        factors: Option<&CpuMatrix>,
        x: &CpuMatrix,
        listed: Option<&[u32]>,
    ) -> Self {
        let n_words = row_words(x.n_cols());
        let mut words = CpuMatrix::to_assign(pool, x.n_rows(), n_words);
        let pack_one = |row: usize, out: &mut [u32]| {
            pack(factors.map_or(1.0, |factors| factors.values()[row]), x.row(row), out);
        };
        let values: &mut [u32] = bytemuck::cast_slice_mut(words.values_mut());
        threads.row_chunks(values, n_words, CHUNK_ROWS, |first, rows| match listed {
            None => {
                for (row, out) in (first..).zip(rows.chunks_exact_mut(n_words)) {
                    pack_one(row, out);
                }
            }
            Some(listed) => {
                let end = first + rows.len() / n_words;
                let start = listed.partition_point(|&row| (row as usize) < first);
                for &row in listed[start..].iter().take_while(|&&row| (row as usize) < end) {
                    let offset = (row as usize - first) * n_words;
                    pack_one(row as usize, &mut rows[offset..offset + n_words]);
                }
            }
        });
        Self { words }
    }

    /// `sums += row columns[edge]` for each of `edges`, in their order; `columns` are those of all edges.
    pub(super) fn add(&self, columns: &[u32], edges: Range<usize>, sums: &mut [f32]) {
        let words = bytemuck::cast_slice(self.words.values());
        add_packed(Words { columns, words, row_words: self.words.n_cols() }, edges, sums);
    }
}

/// The upper half of a float, to which it was rounded; a NaN stays one, and what is too large becomes
/// infinite.
#[inline(always)]
fn to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    // Rounding could carry a NaN over into a number.
    if value.is_nan() { bits >> 16 | 0x40 } else { rounded }
}

/// Packs one row times `factor`.
#[multiversion(targets("x86_64+avx2"))]
fn pack(factor: f32, row: &[f32], out: &mut [u32]) {
    if factor == 0.0 {
        return out.fill(0);
    }
    let word = |low: f32, high: f32| to_bf16(factor * low) | to_bf16(factor * high) << 16;
    let (groups, tail) = row.as_chunks::<GROUP>();
    let (words, rest) = out.as_chunks_mut::<LANES>();
    for (words, group) in words.iter_mut().zip(groups) {
        for lane in 0..LANES {
            words[lane] = word(group[lane], group[lane + LANES]);
        }
    }
    debug_assert!(rest.is_empty(), "{} words beside whole groups", rest.len());
    if let (false, Some(words)) = (tail.is_empty(), words.last_mut()) {
        let mut group = [0.0; GROUP];
        group[..tail.len()].copy_from_slice(tail);
        for lane in 0..LANES {
            words[lane] = word(group[lane], group[lane + LANES]);
        }
    }
}

/// Packed rows, and which of them all edges lead to: those that follow the ones summed are asked for ahead
/// of their turn.
#[derive(Clone, Copy)]
struct Words<'a> {
    columns: &'a [u32],
    words: &'a [u32],
    row_words: usize,
}

/// Adds one group of words, where there are so many.
#[inline(always)]
fn add_group<const N: usize>(
    group: usize,
    groups: &[[u32; LANES]; N],
    totals: &mut [[[f32; LANES]; 2]; N],
) {
    if group < N {
        for lane in 0..LANES {
            let word = groups[group][lane];
            totals[group][0][lane] += f32::from_bits(word << 16);
            totals[group][1][lane] += f32::from_bits(word & 0xFFFF_0000);
        }
    }
}

/// Adds up `N` groups of columns in registers, the first of them group `first` of a row. `sums` has
/// `N * GROUP` values, which are read before the first edge and written after the last.
#[inline(always)]
fn sum_groups<const N: usize>(
    rows: Words<'_>,
    edges: Range<usize>,
    first: usize,
    sums: &mut [f32],
) {
    let mut totals = [[[0.0_f32; LANES]; 2]; N];
    for (totals, sums) in totals.iter_mut().zip(sums.as_chunks::<GROUP>().0) {
        for lane in 0..LANES {
            (totals[0][lane], totals[1][lane]) = (sums[lane], sums[lane + LANES]);
        }
    }
    for edge in edges {
        if let Some(&column) = rows.columns.get(edge + AHEAD) {
            let start = column as usize * rows.row_words + first * LANES;
            for line in 0..(N * LANES).div_ceil(LINE) {
                prefetch(rows.words, start + line * LINE);
            }
        }
        let start = rows.columns[edge] as usize * rows.row_words + first * LANES;
        let groups = rows.words[start..start + N * LANES].as_chunks::<LANES>().0.first_chunk::<N>();
        let Some(groups) = groups else { continue };
        // One by one: a loop over groups is too long to be unrolled, and sums would not stay in registers.
        add_group(0, groups, &mut totals);
        add_group(1, groups, &mut totals);
        add_group(2, groups, &mut totals);
        add_group(3, groups, &mut totals);
    }
    for (sums, totals) in sums.as_chunks_mut::<GROUP>().0.iter_mut().zip(totals) {
        for lane in 0..LANES {
            (sums[lane], sums[lane + LANES]) = (totals[0][lane], totals[1][lane]);
        }
    }
}

/// `sums += row columns[edge]` for each of `edges`, in their order.
#[multiversion(targets("x86_64+avx2"))]
fn add_packed(rows: Words<'_>, edges: Range<usize>, sums: &mut [f32]) {
    let (blocks, tail) = sums.as_chunks_mut::<{ GROUPS * GROUP }>();
    let n_whole = blocks.len() * GROUPS;
    for (block, sums) in blocks.iter_mut().enumerate() {
        sum_groups::<GROUPS>(rows, edges.clone(), block * GROUPS, sums);
    }
    if tail.is_empty() {
        return;
    }
    // One register more than is summed: what is copied in and out is then not what is summed in.
    let mut padded = [0.0; GROUPS * GROUP + LANES];
    padded[..tail.len()].copy_from_slice(tail);
    match tail.len().div_ceil(GROUP) {
        1 => sum_groups::<1>(rows, edges, n_whole, &mut padded[..GROUP]),
        2 => sum_groups::<2>(rows, edges, n_whole, &mut padded[..2 * GROUP]),
        3 => sum_groups::<3>(rows, edges, n_whole, &mut padded[..3 * GROUP]),
        _ => sum_groups::<GROUPS>(rows, edges, n_whole, &mut padded[..GROUPS * GROUP]),
    }
    tail.copy_from_slice(&padded[..tail.len()]);
}
