//! The statistical bounds can fail: each is broken by a rounding that is deliberately wrong.
//!
//! The wrong roundings use the codec's own levels and random bits, so that they differ from it in the
//! one respect under test.

use half::bf16;
use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_random::Family;

use crate::draws;
use crate::statistics::{N_KEYS, allowed_deviation, check_moments, sample};

/// The seed with which `sample` draws.
const SAMPLE_SEED: u64 = 2024;

/// Rows under `N_KEYS` keys, each value replaced by `round(value, first 8 random bits)`.
fn simulate(row: &[f32], round: impl Fn(f32, u32) -> f32) -> Vec<f32> {
    let family = draws(SAMPLE_SEED);
    (0..N_KEYS as u32)
        .flat_map(|key| row.iter().enumerate().map(move |(column, &value)| (key, column, value)))
        .map(|(key, column, value)| round(value, byte(family, key, column)))
        .collect()
}

fn byte(family: Family, key: u32, column: usize) -> u32 {
    let word = family.short_block(key, (column / 16) as u32)[column % 16 / 4];
    word >> (column % 4 * 8) & 0xff
}

/// The levels around a value and its position between them.
fn around(levels: &[f32], value: f32) -> (f32, f32, f64) {
    let below = levels.iter().rposition(|&level| level <= value).unwrap_or(0);
    let above = levels[(below + 1).min(levels.len() - 1)];
    let below = levels[below];
    let step = f64::from(above) - f64::from(below);
    let position = (f64::from(value) - f64::from(below)) / if step > 0.0 { step } else { 1.0 };
    (below, above, position)
}

#[test]
fn rounding_to_nearest_is_caught() {
    let row: Vec<f32> = (0..33_u8).map(|column| f32::from(column) / 32.0 * 0.9).collect();
    for width in crate::QUANTIZED {
        let codec = RowCodec { width, metadata: MetadataType::F32 };
        let (honest, levels) = sample(codec, &row).expect("finite");
        assert_eq!(check_moments(codec, &row, &honest, &levels), Ok(()));
        let nearest = simulate(&row, |value, _| {
            let (below, above, position) = around(&levels, value);
            if position >= 0.5 { above } else { below }
        });
        let caught = check_moments(codec, &row, &nearest, &levels);
        assert!(caught.is_err(), "{width} bits");
    }
}

#[test]
fn metadata_rounded_to_nearest_is_caught() {
    // The nearest bf16 lies above 0.1: level 0 would lie above the row.
    let row = [0.1_f32; 33];
    let codec = RowCodec { width: Width::One, metadata: MetadataType::Bf16 };
    let (honest, levels) = sample(codec, &row).expect("finite");
    assert_eq!(check_moments(codec, &row, &honest, &levels), Ok(()));
    let nearest = bf16::from_f32(0.1).to_f32();
    assert!(nearest > 0.1);
    assert!(check_moments(codec, &row, &simulate(&row, |_, _| nearest), &levels).is_err());

    // The nearest scale may be too small: the maximum would be cut off.
    let codec = RowCodec { width: Width::Eight, metadata: MetadataType::Bf16 };
    let max = 1.002 * 255.0 / 256.0;
    let row: Vec<f32> = (0..33).map(|column| if column < 1 { 0.0 } else { max }).collect();
    let (honest, levels) = sample(codec, &row).expect("finite");
    assert_eq!(check_moments(codec, &row, &honest, &levels), Ok(()));
    let top = bf16::from_f32(max / 255.0).to_f32() * 255.0;
    assert!(top < max);
    let cut = simulate(&row, |value, _| value.min(top));
    assert!(check_moments(codec, &row, &cut, &levels).is_err());
}

/// Eight bits alone put every probability down to a multiple of 1/256.
#[test]
fn leaving_out_the_ties_is_caught() {
    const N_COLS: usize = 512;
    // Just below a multiple, where the loss is largest.
    let value = |column: usize| (column % 256) as f32 / 256.0 + 255.0 / 65536.0;
    let mut row: Vec<f32> = (0..N_COLS).map(value).collect();
    (row[0], row[1]) = (0.0, 1.0);
    let codec = RowCodec { width: Width::One, metadata: MetadataType::F32 };
    let mean_bias = |decoded: &[f32]| {
        let errors = decoded.chunks(N_COLS).flat_map(|decoded| decoded.iter().zip(&row));
        let sum: f64 = errors.map(|(&d, &x)| f64::from(d) - f64::from(x)).sum();
        sum / (N_KEYS * N_COLS) as f64
    };
    let allowed = allowed_deviation(1.0, N_KEYS * N_COLS);
    let (honest, _) = sample(codec, &row).expect("finite");
    assert!(mean_bias(&honest).abs() <= allowed);
    let without = simulate(&row, |value, byte| {
        f32::from(u8::from((value * 256.0).floor() as u32 + byte >= 256))
    });
    assert!(mean_bias(&without).abs() > allowed, "{} {allowed}", mean_bias(&without));
}
