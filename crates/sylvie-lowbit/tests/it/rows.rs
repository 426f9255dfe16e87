//! Single rows: round trips, constants, zeros, signs, and the ends of what `f32` holds.

use half::{bf16, f16};
use proptest::prelude::*;
use sylvie_lowbit::{EncodeError, MetadataType, RowCodec, Width};

use crate::{
    QUANTIZED, all_codecs, decode, draws, encode, levels, metadata, quantized_codecs, round_trip,
};

fn any_codec() -> impl Strategy<Value = RowCodec> {
    prop::sample::select(all_codecs().collect::<Vec<_>>())
}

/// Rows of one magnitude, from 1e-7 to 1e30, of any length from 0 to 40, with some exact zeros.
fn rows(n_rows: usize) -> impl Strategy<Value = Vec<f32>> {
    let magnitude = prop::sample::select(vec![1e-40_f32, 1e-7, 1e-3, 1.0, 300.0, 1e30]);
    (0_usize..40, magnitude, -1.0_f32..1.0).prop_flat_map(move |(n_cols, magnitude, offset)| {
        let value = prop_oneof![1 => Just(0.0), 6 => -1.0_f32..1.0];
        let value = value.prop_map(move |value| magnitude * (offset + value));
        prop::collection::vec(value, n_rows * n_cols)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A decoded value is one of the two levels around the original, at every odd and even length.
    #[test]
    fn a_value_decodes_to_a_level_beside_it(
        codec in any_codec(),
        x in rows(3),
        seed in any::<u64>(),
    ) {
        let n_cols = x.len() / 3;
        // f16 does not reach 1e30: that is for the tests of errors.
        let Ok(message) = encode(codec, &x, 3, seed) else {
            prop_assert!(codec.metadata == MetadataType::F16 || codec.width == Width::F16);
            prop_assert!(x.iter().any(|value| value.abs() > 65504.0 / 2.0));
            return Ok(());
        };
        let decoded = decode(codec, &message, 3, n_cols).expect("just encoded");
        for (row_idx, (row, decoded)) in
            x.chunks(n_cols.max(1)).zip(decoded.chunks(n_cols.max(1))).enumerate()
        {
            for (&value, &found) in row.iter().zip(decoded) {
                match codec.width {
                    Width::F32 => prop_assert_eq!(found.to_bits(), value.to_bits()),
                    Width::F16 => prop_assert_eq!(found, f16::from_f32(value).to_f32()),
                    Width::Bf16 => prop_assert_eq!(found, bf16::from_f32(value).to_f32()),
                    _ => {
                        let levels = levels(codec, &message, row_idx);
                        let below = levels.iter().copied().filter(|&level| level <= value);
                        let above = levels.iter().copied().filter(|&level| level >= value);
                        prop_assert!(
                            Some(found) == below.reduce(f32::max)
                                || Some(found) == above.reduce(f32::min)
                        );
                    }
                }
            }
        }
    }

    /// The zero point cannot be larger and the scale cannot be smaller, whatever W is.
    #[test]
    fn metadata_is_as_tight_as_its_type_allows(
        codec in prop::sample::select(quantized_codecs().collect::<Vec<_>>()),
        x in rows(1),
        seed in any::<u64>(),
    ) {
        prop_assume!(!x.is_empty());
        let Ok(message) = encode(codec, &x, 1, seed) else { return Ok(()) };
        let (zero, scale) = metadata(codec, &message, 0);
        let min = x.iter().copied().fold(f32::INFINITY, f32::min);
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let max_code = codec.width.max_code().expect("quantised") as f32;
        let top = |zero: f32, scale: f32| zero + max_code * scale;
        prop_assert!(zero <= min && scale >= 0.0 && top(zero, scale) >= max);
        prop_assert!(neighbour(codec.metadata, zero, Direction::Up) > min);
        if scale > 0.0 {
            prop_assert!(top(zero, neighbour(codec.metadata, scale, Direction::Down)) < max);
        }
    }

    /// The same coordinates give the same bytes; another key or seed gives others.
    #[test]
    fn bytes_are_a_function_of_coordinates(seed in any::<u64>(), key in 0_u32..u32::MAX) {
        let x: Vec<f32> = (0..256_u16).map(|i| f32::from(i) / 255.0).collect();
        for width in QUANTIZED {
            let codec = RowCodec { width, metadata: MetadataType::F16 };
            let bytes = |seed, key| {
                let mut message = vec![0; codec.message_bytes(1, 256)];
                codec.encode_all(&x, 256, &[key], draws(seed), &mut message).expect("finite");
                message
            };
            prop_assert_eq!(bytes(seed, key), bytes(seed, key));
            // At 8 bits f16 levels of 1/255 move nearly every value by chance too.
            prop_assert_ne!(bytes(seed, key), bytes(seed, key + 1));
            prop_assert_ne!(bytes(seed, key), bytes(seed ^ 1, key));
        }
    }
}

enum Direction {
    Up,
    Down,
}

/// The next larger or smaller value of a type, in its own ordering.
fn neighbour(metadata: MetadataType, value: f32, direction: Direction) -> f32 {
    let step = match (direction, value.is_sign_positive()) {
        (Direction::Up, true) | (Direction::Down, false) => 1,
        (Direction::Up, false) | (Direction::Down, true) => -1_i32,
    };
    let moved = |pattern: u32| pattern.wrapping_add_signed(step);
    match metadata {
        MetadataType::F32 => f32::from_bits(moved(value.to_bits())),
        MetadataType::Bf16 => {
            bf16::from_bits(moved(u32::from(bf16::from_f32(value).to_bits())) as u16).to_f32()
        }
        MetadataType::F16 => {
            f16::from_bits(moved(u32::from(f16::from_f32(value).to_bits())) as u16).to_f32()
        }
    }
}

#[test]
fn zeros_come_back_exactly_whatever_their_sign() {
    for codec in quantized_codecs() {
        for row in [[0.0; 13], [-0.0; 13]] {
            let message = encode(codec, &row, 1, 1).expect("finite");
            assert!(message.iter().all(|&byte| byte == 0), "{codec:?}: {message:?}");
            assert!(round_trip(codec, &row, 1).iter().all(|value| value.to_bits() == 0));
        }
        // The sign of a zero changes no byte of a mixed row either.
        let positive = encode(codec, &[0.0, 1.0, 0.0, 0.3], 1, 1);
        assert_eq!(positive, encode(codec, &[-0.0, 1.0, 0.0, 0.3], 1, 1));
        assert_eq!(positive, encode(codec, &[0.0, 1.0, -0.0, 0.3], 1, 1));
    }
}

#[test]
fn constant_rows_that_the_metadata_holds_come_back_exactly() {
    for codec in quantized_codecs() {
        for value in [1.0, -1.0, 0.5, -2048.0, 3.25, 6e-5, 65504.0_f32] {
            let value = match codec.metadata {
                MetadataType::F16 => f16::from_f32(value).to_f32(),
                _ => bf16::from_f32(value).to_f32(),
            };
            if codec.metadata == MetadataType::F16 && value > 65504.0 {
                continue;
            }
            assert_eq!(round_trip(codec, &[value; 11], 5), [value; 11], "{codec:?}");
        }
        let exact = RowCodec { metadata: MetadataType::F32, ..codec };
        for value in [0.1, f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1), 1e30] {
            assert_eq!(round_trip(exact, &[value; 11], 5), [value; 11], "{exact:?}");
        }
    }
}

#[test]
fn relu_rows_keep_their_zeros_and_their_exact_maximum() {
    for codec in quantized_codecs() {
        let row = [0.0, 0.7, 0.0, 0.0, 1.9, 0.0, 0.3, 0.0, 0.0];
        let decoded = round_trip(codec, &row, 2);
        for (&value, decoded) in row.iter().zip(decoded) {
            assert!(value != 0.0 || decoded.to_bits() == 0, "{codec:?}: {decoded}");
        }
    }
    // A scale that W holds makes the maximum a level.
    let decoded = round_trip(RowCodec::new(Width::Two), &[0.0, 0.7, 3.0], 2);
    assert_eq!((decoded[0], decoded[2]), (0.0, 3.0));
}

#[test]
fn subnormal_rows_are_kept() {
    let row: Vec<f32> = [0, 5, 1, 1000, 255, 77, 512].map(f32::from_bits).to_vec();
    for width in QUANTIZED {
        let codec = RowCodec { width, metadata: MetadataType::F32 };
        let message = encode(codec, &row, 1, 4).expect("finite");
        let (zero, scale) = metadata(codec, &message, 0);
        // 1000 units at the top: the smallest scale that reaches it is the quotient, rounded up.
        let max_code = width.max_code().expect("quantised");
        assert_eq!((zero, scale.to_bits()), (0.0, 1000_u32.div_ceil(max_code)));
        let decoded = round_trip(codec, &row, 4);
        assert!(decoded.iter().any(|value| value.is_subnormal()));
        assert_eq!(decoded[0], 0.0);
    }
}

#[test]
fn ranges_at_the_edge_of_f32_are_right_or_refused() {
    let max = f32::MAX;
    for codec in quantized_codecs() {
        for row in [[-max, max], [-max, 1e30], [max / -2.0, max / 2.0], [0.0, max], [max, max]] {
            match encode(codec, &row, 1, 9) {
                Ok(message) => {
                    let levels = levels(codec, &message, 0);
                    assert!(levels.iter().all(|level| level.is_finite()), "{codec:?} {row:?}");
                    assert!(levels[0] <= row[0] && levels[levels.len() - 1] >= row[1]);
                }
                Err(error) => assert!(
                    matches!(
                        error,
                        EncodeError::MetadataOverflow { row: 0, .. }
                            | EncodeError::RangeOverflow { row: 0 }
                    ),
                    "{error}"
                ),
            }
        }
    }
    for width in QUANTIZED {
        let codec = RowCodec { width, metadata: MetadataType::F32 };
        assert_eq!(encode(codec, &[-max, max], 1, 9), Err(EncodeError::RangeOverflow { row: 0 }));
        assert_eq!(round_trip(codec, &[max, max], 9), [max, max]);
    }
    let exact = RowCodec { width: Width::One, metadata: MetadataType::F32 };
    assert_eq!(round_trip(exact, &[0.0, max, max, 0.0], 9), [0.0, max, max, 0.0]);
    // bf16 rounds the scale up: level 1 would be 2^128.
    let error = encode(RowCodec::new(Width::One), &[0.0, max], 1, 9);
    let metadata = MetadataType::Bf16;
    assert_eq!(error, Err(EncodeError::MetadataOverflow { row: 0, metadata }));
    // The scale is finite, the level is not.
    let error = encode(RowCodec::new(Width::One), &[max, max], 1, 9);
    assert_eq!(error, Err(EncodeError::RangeOverflow { row: 0 }));
}

#[test]
fn rows_of_equal_levels_are_handled() {
    // Between 2^30 and its neighbour 128 further up, 255 levels round to one of two values.
    let row = [1_073_741_824.0, 1_073_741_952.0, 1_073_741_824.0_f32];
    for codec in quantized_codecs() {
        match encode(codec, &row, 1, 3) {
            Ok(message) => assert_eq!(decode(codec, &message, 1, 3), Ok(row.to_vec()), "{codec:?}"),
            Err(_) => assert_eq!(codec.metadata, MetadataType::F16, "{codec:?}"),
        }
    }
}
