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

/// `x *= factor`.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn scale(factor: f32, x: &mut [f32]) {
    x.iter_mut().for_each(|value| *value *= factor);
}

/// `x = max(x, 0)`.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn relu(x: &mut [f32]) {
    // Written so that a NaN stays one and is seen downstream; `max` would hide it.
    x.iter_mut().for_each(|value| *value = if *value <= 0.0 { 0.0 } else { *value });
}

/// Zeroes `dy` where `y` is not above 0.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn relu_backward(y: &[f32], dy: &mut [f32]) {
    for (dy, &y) in dy.iter_mut().zip(y) {
        *dy = if y > 0.0 { *dy } else { 0.0 };
    }
}

/// `y = max(x * gain + offset, 0)`, as [`normalise`] and [`relu`] have it.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn affine_relu((gain, offset): (&[f32], &[f32]), x: &[f32], y: &mut [f32]) {
    for ((y, &x), (&gain, &offset)) in y.iter_mut().zip(x).zip(gain.iter().zip(offset)) {
        let value = x * gain + offset;
        *y = if value <= 0.0 { 0.0 } else { value };
    }
}

/// Zeroes `dy` where `x * gain + offset` is not above 0.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn affine_relu_backward((gain, offset): (&[f32], &[f32]), x: &[f32], dy: &mut [f32]) {
    for ((dy, &x), (&gain, &offset)) in dy.iter_mut().zip(x).zip(gain.iter().zip(offset)) {
        *dy = if x * gain + offset > 0.0 { *dy } else { 0.0 };
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
#[inline(always)]
fn sum(x: &[f32]) -> f32 {
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
    inner_product(x, y)
}

#[inline(always)]
fn inner_product(x: &[f32], y: &[f32]) -> f32 {
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

/// `e` to the power of `x`, within two units in the last place; what is below the smallest normal number
/// becomes 0, what is above `exp(88.37)` infinite, and a NaN stays one. Additions and products alone, so that all machines agree.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it leaves a whole number in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    /// The logarithm of 2: a part with few digits, and the rest.
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const LOWEST: f32 = -87.336_54;
    const HIGHEST: f32 = 88.37;
    // Of (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, the largest error made small (as in the Cephes library).
    const POLYNOMIAL: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = x - n * LN2[0] - n * LN2[1];
    let mut sum = POLYNOMIAL[0];
    for &coefficient in &POLYNOMIAL[1..] {
        sum = sum * r + coefficient;
    }
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    let value = (sum * r * r + r + 1.0) * power;
    let value = if x < LOWEST { 0.0 } else { value };
    if x > HIGHEST { f32::INFINITY } else { value }
}

/// `x = exp(x)`.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn exp_all(x: &mut [f32]) {
    x.iter_mut().for_each(|value| *value = exp(*value));
}

/// LayerNorm of one row `x`, in place; assigns the normalised row before gain and offset, and returns the
/// inverse deviation.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn normalise(
    (gain, offset): (&[f32], &[f32]),
    epsilon: f32,
    x: &mut [f32],
    normalised: &mut [f32],
) -> f32 {
    let width = x.len() as f32;
    let mean = sum(x) / width;
    for (value, &x) in normalised.iter_mut().zip(&*x) {
        *value = x - mean;
    }
    let inverse = 1.0 / (inner_product(normalised, normalised) / width + epsilon).sqrt();
    for ((x, value), (&gain, &offset)) in x.iter_mut().zip(normalised).zip(gain.iter().zip(offset))
    {
        *value *= inverse;
        *x = *value * gain + offset;
    }
    inverse
}

/// Backward of [`normalise`]: turns the gradient `dy` of one row into that of its input, and adds what
/// the row brings to the gradients of gain and offset.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn normalise_backward(
    gain: &[f32],
    (normalised, inverse): (&[f32], f32),
    dy: &mut [f32],
    (dgain, doffset): (&mut [f32], &mut [f32]),
) {
    let width = dy.len() as f32;
    for ((dgain, doffset), (&dy, &value)) in
        dgain.iter_mut().zip(doffset).zip(dy.iter().zip(normalised))
    {
        *doffset += dy;
        *dgain += dy * value;
    }
    for (dy, &gain) in dy.iter_mut().zip(gain) {
        *dy *= gain;
    }
    let mean = sum(dy) / width;
    let projection = inner_product(dy, normalised) / width;
    for (dy, &value) in dy.iter_mut().zip(normalised) {
        *dy = (*dy - mean - value * projection) * inverse;
    }
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

    /// What values that stay are multiplied by.
    pub(super) fn scale(self) -> f32 {
        self.scale
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
    drop_values(mask, key, row);
}

/// Assigns the values `from` of one row after dropout.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn drop_row_of(mask: Mask, key: u32, from: &[f32], row: &mut [f32]) {
    row.copy_from_slice(from);
    drop_values(mask, key, row);
}

#[inline(always)]
fn drop_values(mask: Mask, key: u32, row: &mut [f32]) {
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

/// Assigns a bit a column of one row, the first column's the lowest: 1 where dropout keeps the value. There
/// are two words for 64 columns.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn kept_columns(mask: Mask, key: u32, bits: &mut [u32]) {
    for (index, pair) in bits.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let column_blocks = std::array::from_fn(|lane| (index * LANES + lane) as u32);
        let words = mask.draws.blocks::<LANES>(key, column_blocks);
        // Of each lane's eight columns.
        let mut kept = [0_u32; LANES];
        for (place, words) in words.iter().enumerate() {
            for lane in 0..LANES {
                let (low, high) = (words[lane] & 0xFFFF, words[lane] >> 16);
                kept[lane] |= u32::from(low >= mask.threshold) << (2 * place);
                kept[lane] |= u32::from(high >= mask.threshold) << (2 * place + 1);
            }
        }
        let [a, b, c, d, e, f, g, h] = kept;
        *pair = [a | b << 8 | c << 16 | d << 24, e | f << 8 | g << 16 | h << 24];
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

#[cfg(test)]
mod tests {
    use super::{exp, exp_all};

    #[test]
    fn exponentials_are_close_to_those_of_the_library() {
        let mut x: Vec<f32> = (-8700..=8837).map(|i| i as f32 / 100.0).collect();
        x.extend([-1e-8, 0.0, 1e-8, -87.336_5]);
        for &x in &x {
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            let error = ((found - expected) / expected).abs();
            assert!(error < 2.5e-7, "exp({x}) is {found}, not {expected}");
        }
        let one_by_one: Vec<u32> = x.iter().map(|&x| exp(x).to_bits()).collect();
        exp_all(&mut x);
        assert_eq!(x.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), one_by_one);
    }

    #[test]
    fn exponentials_at_the_ends() {
        assert_eq!([exp(f32::NEG_INFINITY), exp(-200.0), exp(-88.0)], [0.0; 3]);
        assert_eq!([exp(89.0), exp(f32::INFINITY)], [f32::INFINITY; 2]);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!(exp(0.0), 1.0);
    }
}
