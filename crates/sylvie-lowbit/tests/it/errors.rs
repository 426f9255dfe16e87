//! What is refused: rows that cannot be encoded, bytes that no encoder writes, callers that err.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use sylvie_lowbit::{DecodeError, EncodeError, MetadataType, RowCodec, Width};

use crate::{all_codecs, decode, draws, encode, quantized_codecs};

#[test]
fn a_nan_or_an_infinity_is_named_at_every_width() {
    for codec in all_codecs() {
        for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for (row, column) in [(0, 0), (1, 9), (2, 12)] {
                let mut x = vec![0.5; 3 * 13];
                x[row * 13 + column] = wrong;
                let expected = EncodeError::NotFinite { row, column };
                assert_eq!(encode(codec, &x, 3, 1), Err(expected.clone()), "{codec:?}");
                assert_eq!(expected.row(), row);
                // Rows are counted within the call, not within the matrix.
                let mut out = vec![0; codec.message_bytes(2, 13)];
                let ids = [((row + 1) % 3) as u32, row as u32];
                let error = codec.encode_rows(&x, 13, &ids, &[5, 6], draws(1), &mut out);
                assert_eq!(error, Err(EncodeError::NotFinite { row: 1, column }));
                let error = codec.expected_squared_error(&x[row * 13..][..13]);
                assert_eq!(error, Err(EncodeError::NotFinite { row: 0, column }));
            }
        }
    }
}

#[test]
fn metadata_beyond_f16_is_named() {
    let metadata = MetadataType::F16;
    for codec in quantized_codecs().filter(|codec| codec.metadata == metadata) {
        let overflow = Err(EncodeError::MetadataOverflow { row: 1, metadata });
        // No finite zero point is low enough.
        assert_eq!(encode(codec, &[0.0, 0.0, -65505.0, 0.0], 2, 1), overflow, "{codec:?}");
        // No finite scale is large enough.
        let max_code = codec.width.max_code().expect("quantised") as f32;
        assert_eq!(encode(codec, &[0.0, 0.0, 0.0, 65505.0 * max_code], 2, 1), overflow);
        assert!(encode(codec, &[0.0, 0.0, 0.0, 65504.0 * max_code], 2, 1).is_ok());
        // Above the largest f16 the zero point stays there, and the scale makes up for the rest.
        assert!(encode(codec, &[65600.0; 4], 2, 1).is_ok());
    }
}

#[test]
fn values_beyond_half_precision_are_named() {
    let codec = RowCodec::new(Width::F16);
    assert!(encode(codec, &[65504.0, 65519.0, -65519.0], 1, 1).is_ok());
    for value in [65520.0, -65520.0, 1e30] {
        let error = encode(codec, &[1.0, 1.0, 1.0, 1.0, value, value], 2, 1);
        let width = Width::F16;
        assert_eq!(error, Err(EncodeError::ValueOverflow { row: 1, column: 1, width }));
        let error = codec.expected_squared_error(&[value]);
        assert_eq!(error, Err(EncodeError::ValueOverflow { row: 0, column: 0, width }));
    }
    let error = encode(RowCodec::new(Width::Bf16), &[1e38, f32::MAX], 1, 1);
    let width = Width::Bf16;
    assert_eq!(error, Err(EncodeError::ValueOverflow { row: 0, column: 1, width }));
    // What is not a number comes before what is too large.
    let error = encode(codec, &[1e30, f32::NAN], 1, 1);
    assert_eq!(error, Err(EncodeError::NotFinite { row: 0, column: 1 }));
}

#[test]
fn wrong_lengths_are_refused_before_a_byte_is_used() {
    for codec in all_codecs() {
        let message = [0xff; 200];
        let expected = codec.message_bytes(3, 5);
        for found in [0, 1, expected - 1, expected + 1, 200] {
            let error = Err(DecodeError::WrongLength { expected, found });
            let mut out = vec![7.0; 15];
            assert_eq!(codec.decode_rows(&message[..found], 5, &mut out), error, "{codec:?}");
            assert_eq!(codec.decode_add_rows(&message[..found], 5, &[0, 1, 2], &mut out), error);
            let mut selected = vec![0; codec.message_bytes(1, 5)];
            let refused = codec.select_rows(&message[..found], 3, 5, &[0], &mut selected);
            assert_eq!(refused, error);
            assert_eq!(out, [7.0; 15]);
        }
        // Without columns, part of a row's metadata is refused as well.
        assert!(codec.decode_rows(&[0; 13], 0, &mut []).is_err(), "{codec:?}");
    }
}

#[test]
fn invalid_metadata_is_named() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let wrong =
        [(nan, 1.0), (0.0, nan), (inf, 0.0), (-inf, 1.0), (0.0, inf), (0.0, -1.0), (3e38, 3e38)];
    for width in crate::QUANTIZED {
        let codec = RowCodec { width, metadata: MetadataType::F32 };
        let message = encode(codec, &[0.5; 9], 3, 1).expect("finite");
        for (zero, scale) in wrong {
            let mut message = message.clone();
            message[8..12].copy_from_slice(&zero.to_le_bytes());
            message[12..16].copy_from_slice(&scale.to_le_bytes());
            let error = Err(DecodeError::InvalidMetadata { row: 1 });
            let mut out = [0.0; 9];
            assert_eq!(codec.decode_rows(&message, 3, &mut out), error, "{zero} {scale}");
            assert_eq!(codec.decode_add_rows(&message, 3, &[0, 1, 2], &mut out), error);
            assert_eq!(out[3..], [0.0; 6], "the row itself is not written");
        }
    }
    for (metadata, infinity) in [(MetadataType::Bf16, 0x7f80_u16), (MetadataType::F16, 0x7c00)] {
        let codec = RowCodec { width: Width::One, metadata };
        for pattern in [infinity, infinity | 1, infinity | 0x8000, 0xffff] {
            let mut message = vec![0; codec.message_bytes(1, 3)];
            message[..2].copy_from_slice(&pattern.to_le_bytes());
            let error = Err(DecodeError::InvalidMetadata { row: 0 });
            assert_eq!(decode(codec, &message, 1, 3), error);
        }
    }
}

#[test]
fn payloads_that_are_not_finite_are_named() {
    for (width, pattern) in [
        (Width::F32, f32::NAN.to_le_bytes().to_vec()),
        (Width::F32, f32::NEG_INFINITY.to_le_bytes().to_vec()),
        (Width::F16, 0x7c00_u16.to_le_bytes().to_vec()),
        (Width::Bf16, 0x7fc0_u16.to_le_bytes().to_vec()),
    ] {
        let codec = RowCodec::new(width);
        let mut message = encode(codec, &[0.5; 9], 3, 1).expect("finite");
        let n_bytes = width.bits() / 8;
        message[7 * n_bytes..8 * n_bytes].copy_from_slice(&pattern);
        let error = Err(DecodeError::NotFinite { row: 2, column: 1 });
        assert_eq!(decode(codec, &message, 3, 3), error);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any bytes are decoded or refused, and what is decoded is finite.
    #[test]
    fn arbitrary_bytes_never_panic(
        codec in prop::sample::select(all_codecs().collect::<Vec<_>>()),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        n_rows in 0_usize..5,
        n_cols in 0_usize..12,
        exact in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if exact {
            bytes.resize(codec.message_bytes(n_rows, n_cols), 0x3c);
        }
        let mut out = vec![0.0; n_rows * n_cols];
        let decoded = codec.decode_rows(&bytes, n_cols, &mut out);
        prop_assert!(out.iter().all(|value| value.is_finite()));
        let row_ids: Vec<u32> = (0..n_rows as u32).collect();
        let mut sum = vec![0.0; n_rows * n_cols];
        let added = codec.decode_add_rows(&bytes, n_cols, &row_ids, &mut sum);
        if n_cols > 0 {
            prop_assert_eq!(&decoded, &added);
            prop_assert_eq!(out, sum);
        }
        let mut selected = vec![0; codec.message_bytes(n_rows, n_cols)];
        let copied = codec.select_rows(&bytes, n_rows, n_cols, &row_ids, &mut selected);
        prop_assert_eq!(copied.is_ok(), bytes.len() == selected.len());
        prop_assert!(copied.is_err() || selected == bytes);
    }

    /// Any bit patterns are encoded, and then decoded, or refused.
    #[test]
    fn arbitrary_values_never_panic(
        codec in prop::sample::select(all_codecs().collect::<Vec<_>>()),
        patterns in prop::collection::vec(any::<u32>(), 1..20),
        mask in prop::sample::select(vec![u32::MAX, 0xbfff_ffff, 0x807f_ffff, 0xc000_0fff]),
    ) {
        let x: Vec<f32> = patterns.iter().map(|&pattern| f32::from_bits(pattern & mask)).collect();
        match encode(codec, &x, 1, 1) {
            Ok(message) => prop_assert!(decode(codec, &message, 1, x.len()).is_ok()),
            Err(error) => prop_assert_eq!(error.row(), 0),
        }
    }
}

/// The message of the panic that `call` raises.
fn panic_message(call: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("a broken contract panics");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn broken_contracts_panic_with_both_numbers() {
    let codec = RowCodec::new(Width::One);
    let x = [0.0; 6];
    let mut out = [0_u8; 10];
    let mut values = [0.0; 6];
    for (message, parts) in [
        (
            panic_message(|| drop(codec.encode_rows(&x, 3, &[2], &[1], draws(1), &mut out[..5]))),
            "row 2 of a matrix of 2",
        ),
        (
            panic_message(|| {
                drop(codec.encode_rows(&x, 3, &[1], &[1, 2], draws(1), &mut out[..5]))
            }),
            "1 row ids with 2",
        ),
        (
            panic_message(|| drop(codec.encode_rows(&x, 4, &[1], &[1], draws(1), &mut out[..5]))),
            "6 values with 4",
        ),
        (
            panic_message(|| drop(codec.encode_all(&x, 3, &[1], draws(1), &mut out[..5]))),
            "2 rows with 1",
        ),
        (
            panic_message(|| drop(codec.encode_all(&x, 3, &[1, 2], draws(1), &mut out[..9]))),
            "9 bytes for a message of 2 x 3 values, 10",
        ),
        (
            panic_message(|| drop(codec.encode_all(&x, 0, &[1], draws(1), &mut out[..4]))),
            "6 values with 0",
        ),
        (
            panic_message(|| drop(codec.select_rows(&[0; 10], 2, 3, &[2], &mut out[..5]))),
            "row 2 of a message of 2",
        ),
        (panic_message(|| drop(codec.select_rows(&[0; 10], 2, 3, &[1], &mut out[..6]))), "6 bytes"),
        (panic_message(|| drop(codec.decode_rows(&[0; 10], 4, &mut values))), "6 values with 4"),
        (
            panic_message(|| drop(codec.decode_add_rows(&[0; 5], 3, &[2], &mut values))),
            "row 2 of a matrix of 2",
        ),
    ] {
        assert!(message.contains(parts), "`{message}` lacks `{parts}`");
    }
}

#[test]
fn messages_say_what_and_where() {
    let error = EncodeError::MetadataOverflow { row: 3, metadata: MetadataType::F16 };
    assert_eq!(error.to_string(), "row 3 needs a zero point or a scale beyond the range of f16");
    let error = DecodeError::WrongLength { expected: 10, found: 9 };
    assert_eq!(error.to_string(), "message of 9 bytes where 10 were expected");
}
