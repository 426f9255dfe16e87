//! The inner loops, compiled once for every machine and once for AVX2, chosen at run time.
//!
//! No operation is fused or reordered between the two: they give the same bits.
// The choice at run time is an unsafe call that the macro writes.
#![allow(unsafe_code)]

use multiversion::multiversion;
use sylvie_random::Family;

/// Columns summed at once, held in registers: eight of AVX2's.
const BLOCK: usize = 64;
/// Sums side by side in a reduction.
const LANES: usize = 8;
/// Values whose dropout is decided by one block of draws.
const MASK_COLUMNS: usize = 8;

/// `sums += factor * x`.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_scaled(factor: f32, x: &[f32], sums: &mut [f32]) {
    for (sum, &value) in sums.iter_mut().zip(x) {
        *sum += factor * value;
    }
}

/// `sums += x[row]` for each of `rows`, in their order.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_rows(rows: &[u32], x: &[f32], sums: &mut [f32]) {
    let width = sums.len();
    let (blocks, tail) = sums.as_chunks_mut::<BLOCK>();
    let tail_start = blocks.len() * BLOCK;
    for (index, block) in blocks.iter_mut().enumerate() {
        let mut sums = *block;
        for &row in rows {
            if let Some(values) = x[row as usize * width + index * BLOCK..].first_chunk::<BLOCK>() {
                for lane in 0..BLOCK {
                    sums[lane] += values[lane];
                }
            }
        }
        *block = sums;
    }
    if !tail.is_empty() {
        for &row in rows {
            let values = &x[row as usize * width + tail_start..][..tail.len()];
            for (sum, &value) in tail.iter_mut().zip(values) {
                *sum += value;
            }
        }
    }
}

/// `sums += factors[i] * x[rows[i]]` for each `i`, in order.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn add_products(rows: &[u32], factors: &[f32], x: &[f32], sums: &mut [f32]) {
    let width = sums.len();
    let (blocks, tail) = sums.as_chunks_mut::<BLOCK>();
    let tail_start = blocks.len() * BLOCK;
    for (index, block) in blocks.iter_mut().enumerate() {
        let mut sums = *block;
        for (&row, &factor) in rows.iter().zip(factors) {
            if let Some(values) = x[row as usize * width + index * BLOCK..].first_chunk::<BLOCK>() {
                for lane in 0..BLOCK {
                    sums[lane] += factor * values[lane];
                }
            }
        }
        *block = sums;
    }
    if !tail.is_empty() {
        for (&row, &factor) in rows.iter().zip(factors) {
            let values = &x[row as usize * width + tail_start..][..tail.len()];
            for (sum, &value) in tail.iter_mut().zip(values) {
                *sum += factor * value;
            }
        }
    }
}

/// Sum of `x`, in eight sums side by side.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn sum(x: &[f32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    let mut total = 0.0;
    for value in sums.iter().chain(tail) {
        total += value;
    }
    total
}

/// `x . y`, in eight sums side by side.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let ((x_chunks, x_tail), (y_chunks, y_tail)) = (x.as_chunks(), y.as_chunks());
    let mut sums = [0.0_f32; LANES];
    for (a, b) in x_chunks.iter().zip(y_chunks) {
        let (a, b): (&[f32; LANES], &[f32; LANES]) = (a, b);
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut total = 0.0;
    for value in sums {
        total += value;
    }
    for (a, b) in x_tail.iter().zip(y_tail) {
        total += a * b;
    }
    total
}

/// Dropout's decisions: sixteen random bits a value, eight values a block of draws.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    draws: Family,
    /// A value is dropped when its sixteen bits are below this.
    threshold: u32,
    scale: f32,
}

impl Mask {
    /// # Panics
    /// If `rate` is not in [0, 1).
    pub(super) fn new(rate: f32, draws: Family) -> Self {
        assert!((0.0..1.0).contains(&rate), "a dropout rate of {rate} is not in [0, 1)");
        // The rate is rounded to 1/65536; the scale is that of the rounded rate.
        let threshold = ((rate * 65_536.0).round() as u32).min(65_535);
        Self { draws, threshold, scale: 65_536.0 / (65_536 - threshold) as f32 }
    }

    #[inline(always)]
    fn factor(self, bits: u32) -> f32 {
        if bits < self.threshold { 0.0 } else { self.scale }
    }

    /// The factors, 0 or the scale, of columns `8 * block ..`.
    fn factors(self, key: u32, block: u32) -> [f32; MASK_COLUMNS] {
        let words = self.draws.block(key, block);
        std::array::from_fn(|column| {
            let word = words[column / 2];
            self.factor(if column % 2 == 0 { word & 0xFFFF } else { word >> 16 })
        })
    }
}

/// Drops values of one row.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn drop_row(mask: Mask, key: u32, row: &mut [f32]) {
    let (blocks, tail) = row.as_chunks_mut::<{ LANES * MASK_COLUMNS }>();
    let tail_start = (blocks.len() * LANES) as u32;
    for (index, block) in blocks.iter_mut().enumerate() {
        let column_blocks = std::array::from_fn(|lane| (index * LANES + lane) as u32);
        let words = mask.draws.blocks::<LANES>(key, column_blocks);
        for lane in 0..LANES {
            for (pair, words) in words.iter().enumerate() {
                let at = lane * MASK_COLUMNS + 2 * pair;
                block[at] *= mask.factor(words[lane] & 0xFFFF);
                block[at + 1] *= mask.factor(words[lane] >> 16);
            }
        }
    }
    for (block, values) in (tail_start..).zip(tail.chunks_mut(MASK_COLUMNS)) {
        for (value, factor) in values.iter_mut().zip(mask.factors(key, block)) {
            *value *= factor;
        }
    }
}

/// Assigns the stored values of one sparse row after dropout; a value's mask is that of its column.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn drop_sparse_row(
    mask: Mask,
    key: u32,
    columns: &[u32],
    values: &[f32],
    out: &mut [f32],
) {
    let columns_per_block = MASK_COLUMNS as u32;
    let ((column_lanes, column_tail), (value_lanes, value_tail)) =
        (columns.as_chunks::<LANES>(), values.as_chunks::<LANES>());
    let (out_lanes, out_tail) = out.as_chunks_mut::<LANES>();
    for ((columns, values), out) in column_lanes.iter().zip(value_lanes).zip(out_lanes) {
        let column_blocks = columns.map(|column| column / columns_per_block);
        let words = mask.draws.blocks::<LANES>(key, column_blocks);
        for lane in 0..LANES {
            let place = columns[lane] % columns_per_block;
            let bits = words[place as usize / 2][lane] >> (16 * (place % 2)) & 0xFFFF;
            out[lane] = values[lane] * mask.factor(bits);
        }
    }
    for ((&column, &value), out) in column_tail.iter().zip(value_tail).zip(out_tail) {
        let factors = mask.factors(key, column / columns_per_block);
        *out = value * factors[(column % columns_per_block) as usize];
    }
}
