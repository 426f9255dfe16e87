//! The draws: means and squared errors over many keys, with bounds that a right codec passes with
//! probability above 1 - 1e-6 over all seeds. (The probability of each single rounding is counted
//! exactly beside `Levels::round`; what the bounds catch is shown in `power.rs`.)

use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_random::Sequence;

use crate::{QUANTIZED, draws, levels};

pub(crate) const N_KEYS: usize = 4096;
const N_COLS: usize = 33;

/// Chance that a right codec fails one bound: fewer than 10^4 bounds stay below 1e-6 together.
const LN_2_OVER_ALARM: f64 = 23.72; // ln(2 / 1e-10)

/// Hoeffding: the mean of `n` independent values, the i-th in an interval of width `w_i`, deviates
/// from its expectation by more than this with probability below 1e-10.
/// `squared_widths` is the mean of `w_i^2`.
pub(crate) fn allowed_deviation(squared_widths: f64, n: usize) -> f64 {
    (squared_widths * LN_2_OVER_ALARM / (2.0 * n as f64)).sqrt()
}

fn test_rows() -> Vec<(&'static str, Vec<f32>)> {
    let mut sequence = Sequence::new(draws(77), 0);
    let mut row = |map: &dyn Fn(f64) -> f64| -> Vec<f32> {
        (0..N_COLS).map(|_| map(sequence.next_f64()) as f32).collect()
    };
    vec![
        ("symmetric", row(&|u| 2.0 * u - 1.0)),
        ("ReLU", row(&|u| (2.0 * u - 1.0).max(0.0))),
        ("tiny", row(&|u| 1e-7 * (u - 0.3))),
        ("offset", row(&|u| 1000.0 + u)),
        ("negative offset", row(&|u| -77.7 - 1e-3 * u)),
        ("constant", row(&|_| 0.1)),
        ("negative constant", row(&|_| -12.3456)),
        ("skewed", row(&|u| u.powi(20))),
        ("huge", row(&|u| 1e30 * (u - 0.5))),
    ]
}

/// Decoded rows of one row under `N_KEYS` keys, and the message's levels.
pub(crate) fn sample(codec: RowCodec, row: &[f32]) -> Option<(Vec<f32>, Vec<f32>)> {
    let x = row.repeat(N_KEYS);
    let keys: Vec<u32> = (0..N_KEYS as u32).collect();
    let mut message = vec![0; codec.message_bytes(N_KEYS, row.len())];
    codec.encode_all(&x, row.len(), &keys, draws(2024), &mut message).ok()?;
    let mut decoded = vec![0.0; x.len()];
    codec.decode_rows(&message, row.len(), &mut decoded).expect("just encoded");
    Some((decoded, levels(codec, &message, 0)))
}

/// The distance between the levels around `value`.
pub(crate) fn step(levels: &[f32], value: f32) -> f64 {
    let below = levels.iter().rposition(|&level| level <= value).expect("level 0 is below");
    let above = levels.get(below + 1).copied().unwrap_or(levels[below]);
    if levels[below] == value { 0.0 } else { f64::from(above) - f64::from(levels[below]) }
}

#[test]
fn decoding_is_unbiased_and_its_variance_is_the_formula() {
    for width in QUANTIZED {
        for metadata in MetadataType::ALL {
            let codec = RowCodec { width, metadata };
            for (name, row) in test_rows() {
                let Some((decoded, levels)) = sample(codec, &row) else {
                    assert_eq!((name, metadata), ("huge", MetadataType::F16));
                    continue;
                };
                let checked = check_moments(codec, &row, &decoded, &levels);
                assert_eq!(checked, Ok(()), "{name}, {width} bits, {metadata}");
            }
        }
    }
}

/// Means of every column and of all, and the mean squared error, against what the formulas say; what is
/// off, if anything is.
pub(crate) fn check_moments(
    codec: RowCodec,
    row: &[f32],
    decoded: &[f32],
    levels: &[f32],
) -> Result<(), String> {
    let n_cols = row.len();
    let n_keys = decoded.len() / n_cols;
    let steps: Vec<f64> = row.iter().map(|&value| step(levels, value)).collect();
    let mean = |power: i32| steps.iter().map(|s| s.powi(power)).sum::<f64>() / n_cols as f64;
    let error = |key: usize, column: usize| {
        f64::from(decoded[key * n_cols + column]) - f64::from(row[column])
    };
    // Rounding of the sums below, and the 2^-24 by which a probability may be too small.
    let slack = 1e-12 * row.iter().map(|v| f64::from(v.abs())).fold(0.0, f64::max)
        + steps.iter().fold(0.0, |a: f64, &b| a.max(b)) / f64::from(1 << 24);
    let within = |what: &str, found: f64, expected: f64, allowed: f64| {
        let is_within = (found - expected).abs() <= allowed;
        let message = || format!("{what} {found:e}, expected {expected:e} up to {allowed:e}");
        if is_within { Ok(()) } else { Err(message()) }
    };

    for (column, step) in steps.iter().enumerate() {
        let bias = (0..n_keys).map(|key| error(key, column)).sum::<f64>() / n_keys as f64;
        let allowed = allowed_deviation(step.powi(2), n_keys) + slack;
        within(&format!("bias of column {column}"), bias, 0.0, allowed)?;
    }
    let all = || (0..n_keys).flat_map(|key| (0..n_cols).map(move |column| error(key, column)));
    let n_draws = n_keys * n_cols;
    let bias = all().sum::<f64>() / n_draws as f64;
    within("mean bias", bias, 0.0, allowed_deviation(mean(2), n_draws) + slack)?;

    let squared = all().map(|error| error * error).sum::<f64>() / n_draws as f64;
    let expected = codec.expected_squared_error(row).expect("finite") / n_cols as f64;
    let largest = steps.iter().fold(0.0, |a: f64, &b| a.max(b));
    let allowed = allowed_deviation(mean(4), n_draws) + slack * (slack + 2.0 * largest);
    within("mean squared error", squared, expected, allowed)?;

    let range = f64::from(levels[levels.len() - 1]) - f64::from(levels[0]);
    let worst = codec.worst_squared_error(n_cols, range).expect("quantised") / n_cols as f64;
    // Levels are rounded to f32, so steps differ from range / B by up to an ulp of the values.
    let ulp = row.iter().fold(0.0, |a: f32, v| a.max(v.abs())) * f32::EPSILON;
    let ulp = f64::from(ulp);
    within("bound's excess", (expected - worst).max(0.0), 0.0, ulp * (range + ulp))
}

/// One bit, ends that the metadata holds: the paper's closed form.
#[test]
fn one_bit_variance_is_the_closed_form() {
    let row = [0.0, 0.25, 0.1, 0.9, 1.0, 0.5_f32];
    let codec = RowCodec::new(Width::One);
    let expected: f64 = row.iter().map(|&v| f64::from(v) * (1.0 - f64::from(v))).sum();
    let found = codec.expected_squared_error(&row).expect("finite");
    assert!((found - expected).abs() < 1e-15);
    // Midway between the ends is the worst that can happen.
    let midway = [0.0, 1.0, 0.5, 0.5, 0.5];
    let found = codec.expected_squared_error(&midway).expect("finite");
    assert_eq!(found, codec.worst_squared_error(3, 1.0).expect("quantised"));
    assert_eq!(RowCodec::new(Width::Two).worst_squared_error(9, 2.0), Some(1.0));
}

#[test]
fn float_widths_have_their_rounding_error() {
    let row = [1.0, 1.0 + 1.0 / 4096.0, -3.0];
    let error = |width| RowCodec::new(width).expected_squared_error(&row).expect("finite");
    assert_eq!(error(Width::F32), 0.0);
    assert_eq!(error(Width::F16), 1.0 / 4096.0_f64.powi(2));
    assert_eq!(error(Width::Bf16), 1.0 / 4096.0_f64.powi(2));
    assert_eq!(RowCodec::new(Width::F16).worst_squared_error(3, 1.0), None);
}

/// The probability comes from the bits that the coordinates name, and from no others.
#[test]
fn each_value_uses_its_own_bits() {
    let n_cols = 37;
    let mut row: Vec<f32> = (0..n_cols).map(|column| (column as f32 * 0.37).fract()).collect();
    (row[0], row[1]) = (0.0, 1.0);
    for width in QUANTIZED {
        let codec = RowCodec { width, metadata: MetadataType::F32 };
        let family = draws(5);
        let mut message = vec![0; codec.message_bytes(1, n_cols)];
        codec.encode_all(&row, n_cols, &[91], family, &mut message).expect("finite");
        let levels = levels(codec, &message, 0);
        let mut decoded = vec![0.0; n_cols];
        codec.decode_rows(&message, n_cols, &mut decoded).expect("just encoded");
        for (column, (&value, &found)) in row.iter().zip(&decoded).enumerate() {
            let bits_of = |block: u32, first_bit: usize| {
                family.short_block(91, block)[first_bit / 32] >> (first_bit % 32)
            };
            let byte = bits_of((column / 16) as u32, column % 16 * 8) & 0xff;
            let tie = bits_of(1 << 31 | (column / 8) as u32, column % 8 * 16) & 0xffff;
            let fraction = f64::from(byte << 16 | tie) / f64::from(1 << 24);
            let below = levels.iter().rposition(|&level| level <= value).expect("level 0");
            let step = step(&levels, value);
            let offset = f64::from(value) - f64::from(levels[below]);
            let up = step > 0.0 && offset / step + fraction >= 1.0;
            assert_eq!(found, levels[below + usize::from(up)], "{width} bits, column {column}");
        }
    }
}
