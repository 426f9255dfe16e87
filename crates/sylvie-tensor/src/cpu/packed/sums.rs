//! Sums over packed rows, a block of columns at a time.
// The choice at run time is an unsafe call that the macro writes, and says what the processor has.
#![allow(unsafe_code)]

use std::ops::Range;

use multiversion::multiversion;
#[cfg(target_arch = "x86_64")]
use multiversion::target::target_cfg_f;

use super::lanes::{Lanes, Levels, Portable};
use crate::cpu::gather::{AHEAD, LANES, LINE, prefetch};

/// Columns summed side by side: half of AVX2's registers. Rows are filled up to whole blocks.
pub(super) const BLOCK: usize = 64;
/// Words of a block at one bit a value.
pub(super) const BLOCK_WORDS: usize = 2;

/// Packed rows, and which of them all edges lead to: those that follow the ones summed are asked for ahead
/// of their turn.
#[derive(Clone, Copy)]
pub(super) struct Gathered<'a> {
    pub(super) columns: &'a [u32],
    pub(super) codes: &'a [u32],
    pub(super) levels: &'a [[f32; 2]],
    pub(super) factors: Option<&'a [f32]>,
    /// Nothing without dropout.
    pub(super) kept: &'a [u32],
    pub(super) scale: f32,
    pub(super) n_blocks: usize,
}

/// Asks for a block of the row that is read `AHEAD` edges later.
#[inline(always)]
fn prefetch_block<const BITS: usize, const DROPS: bool>(
    rows: Gathered<'_>,
    edge: usize,
    block: usize,
) {
    let Some(&column) = rows.columns.get(edge + AHEAD) else { return };
    let at = (column as usize * rows.n_blocks + block) * BLOCK_WORDS;
    for line in 0..(BLOCK_WORDS * BITS).div_ceil(LINE) {
        prefetch(rows.codes, at * BITS + line * LINE);
    }
    prefetch(rows.levels, column as usize);
    if DROPS {
        prefetch(rows.kept, at);
    }
}

/// A block of a row.
struct Row<'a> {
    codes: &'a [u32],
    kept: &'a [u32],
    levels: Levels,
}

impl Row<'_> {
    /// Adds the values of one register of columns, where there are so many.
    #[inline(always)]
    fn add<L: Lanes, const N: usize, const BITS: usize, const DROPS: bool, const SCALES: bool>(
        &self,
        lanes: L,
        register: usize,
        totals: &mut [[f32; LANES]; N],
    ) {
        if register >= N {
            return;
        }
        let first = register * LANES;
        let kept = if DROPS { self.kept[first / 32] } else { 0 };
        let values = lanes.values::<BITS, DROPS, SCALES>(self.codes, kept, first, self.levels);
        for (total, value) in totals[register].iter_mut().zip(values) {
            *total += value;
        }
    }
}

/// Adds up `N` registers of columns, from the first of a block on. `sums` has a value for each, which are
/// read before the first edge and written after the last.
#[inline(always)]
fn sum_block<L: Lanes, const N: usize, const BITS: usize, const DROPS: bool, const SCALES: bool>(
    lanes: L,
    rows: Gathered<'_>,
    edges: Range<usize>,
    block: usize,
    sums: &mut [f32],
) {
    let mut totals = [[0.0_f32; LANES]; N];
    for (total, sums) in totals.iter_mut().zip(sums.as_chunks::<LANES>().0) {
        *total = *sums;
    }
    for edge in edges {
        prefetch_block::<BITS, DROPS>(rows, edge, block);
        let column = rows.columns[edge] as usize;
        let factor = match rows.factors {
            Some(factors) if SCALES => factors[column],
            _ => 1.0,
        };
        if SCALES && factor == 0.0 {
            continue;
        }
        let at = (column * rows.n_blocks + block) * BLOCK_WORDS;
        let row = Row {
            codes: &rows.codes[at * BITS..(at + BLOCK_WORDS) * BITS],
            kept: if DROPS { &rows.kept[at..at + BLOCK_WORDS] } else { &[] },
            levels: Levels { levels: rows.levels[column], scales: [rows.scale, factor] },
        };
        // One by one: a loop over registers is too long to be unrolled, and sums would not stay in them.
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 0, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 1, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 2, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 3, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 4, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 5, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 6, &mut totals);
        row.add::<L, N, BITS, DROPS, SCALES>(lanes, 7, &mut totals);
    }
    for (sums, total) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(totals) {
        *sums = total;
    }
}

#[inline(always)]
fn sum_row<L: Lanes, const BITS: usize, const DROPS: bool, const SCALES: bool>(
    lanes: L,
    rows: Gathered<'_>,
    edges: Range<usize>,
    sums: &mut [f32],
) {
    let (blocks, tail) = sums.as_chunks_mut::<BLOCK>();
    let n_whole = blocks.len();
    for (block, sums) in blocks.iter_mut().enumerate() {
        sum_block::<L, 8, BITS, DROPS, SCALES>(lanes, rows, edges.clone(), block, sums);
    }
    if tail.is_empty() {
        return;
    }
    // One register more than is summed: what is copied in and out is then not what is summed in.
    let mut padded = [0.0; BLOCK + LANES];
    padded[..tail.len()].copy_from_slice(tail);
    if tail.len() <= BLOCK / 2 {
        sum_block::<L, 4, BITS, DROPS, SCALES>(
            lanes,
            rows,
            edges,
            n_whole,
            &mut padded[..BLOCK / 2],
        );
    } else {
        sum_block::<L, 8, BITS, DROPS, SCALES>(lanes, rows, edges, n_whole, &mut padded[..BLOCK]);
    }
    tail.copy_from_slice(&padded[..tail.len()]);
}

#[inline(always)]
fn sum_row_of<L: Lanes, const BITS: usize>(
    lanes: L,
    rows: Gathered<'_>,
    edges: Range<usize>,
    sums: &mut [f32],
) {
    match (rows.kept.is_empty(), rows.factors.is_some()) {
        (true, false) => sum_row::<L, BITS, false, false>(lanes, rows, edges, sums),
        (true, true) => sum_row::<L, BITS, false, true>(lanes, rows, edges, sums),
        (false, false) => sum_row::<L, BITS, true, false>(lanes, rows, edges, sums),
        (false, true) => sum_row::<L, BITS, true, true>(lanes, rows, edges, sums),
    }
}

#[inline(always)]
fn add_codes_by<L: Lanes>(
    lanes: L,
    bits: usize,
    rows: Gathered<'_>,
    edges: Range<usize>,
    sums: &mut [f32],
) {
    match bits {
        1 => sum_row_of::<L, 1>(lanes, rows, edges, sums),
        2 => sum_row_of::<L, 2>(lanes, rows, edges, sums),
        4 => sum_row_of::<L, 4>(lanes, rows, edges, sums),
        _ => sum_row_of::<L, 8>(lanes, rows, edges, sums),
    }
}

/// `sums += factor * row columns[edge]` for each of `edges`, in their order.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_codes(bits: usize, rows: Gathered<'_>, edges: Range<usize>, sums: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if target_cfg_f!(target_feature = "avx2") {
        // SAFETY: this version runs where the processor has AVX2.
        let lanes = unsafe { super::lanes::Avx2::new() };
        return add_codes_by(lanes, bits, rows, edges, sums);
    }
    add_codes_by(Portable, bits, rows, edges, sums);
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, BLOCK_WORDS, Gathered, Portable, add_codes, add_codes_by};

    /// Codes, levels and factors of a few rows, with every bit pattern of a byte among them.
    #[test]
    fn both_versions_give_the_same_bits() {
        let (n_rows, n_blocks) = (40_u32, 3);
        let word =
            |at: u32| at.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(0x85eb_ca6b).rotate_left(13);
        let levels: Vec<[f32; 2]> =
            (0..n_rows).map(|row| [row as f32 * 0.37 - 3.0, 0.01 + row as f32 * 0.11]).collect();
        let factors: Vec<f32> = (0..n_rows).map(|row| [0.0, 0.3, 1.7][row as usize % 3]).collect();
        let kept: Vec<u32> =
            (0..n_rows * n_blocks * BLOCK_WORDS as u32).map(|at| word(at + 7)).collect();
        let columns: Vec<u32> = (0..200_u32).map(|edge| word(edge) % n_rows).collect();
        for bits in [1, 2, 4, 8] {
            let n_words = n_rows * n_blocks * BLOCK_WORDS as u32 * bits as u32;
            let codes: Vec<u32> = (0..n_words).map(word).collect();
            for (kept, factors) in [
                (&[][..], None),
                (&[][..], Some(&factors[..])),
                (&kept[..], None),
                (&kept[..], Some(&factors[..])),
            ] {
                let n_blocks = n_blocks as usize;
                let (columns, codes, levels) = (&columns, &codes, &levels);
                let rows =
                    Gathered { columns, codes, levels, factors, kept, scale: 1.25, n_blocks };
                for n_cols in [2 * BLOCK + 5, 3 * BLOCK - 9, 3 * BLOCK] {
                    let mut sums = vec![0.5; n_cols];
                    let mut plain = sums.clone();
                    add_codes(bits, rows, 3..190, &mut sums);
                    add_codes_by(Portable, bits, rows, 3..190, &mut plain);
                    let to_bits =
                        |sums: &[f32]| sums.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(to_bits(&sums), to_bits(&plain), "{bits} bits, {n_cols} columns");
                }
            }
        }
    }
}
