//! Whole messages: gathering, selecting, adding, and shapes without rows or columns.

use proptest::prelude::*;
use sylvie_lowbit::{DecodeError, MetadataType, RowCodec, Width};

use crate::{all_codecs, decode, draws, encode, metadata, quantized_codecs};

fn matrix(n_rows: usize, n_cols: usize) -> Vec<f32> {
    (0..n_rows * n_cols).map(|i| ((i * 7919) % 1009) as f32 / 500.0 - 1.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Gathering rows, selecting encoded rows and encoding the rows alone give the same bytes.
    #[test]
    fn selecting_encoded_rows_is_encoding_the_selection(
        codec in prop::sample::select(all_codecs().collect::<Vec<_>>()),
        n_cols in 1_usize..20,
        selection in prop::collection::vec(0_u32..9, 0..15),
    ) {
        let x = matrix(9, n_cols);
        let keys: Vec<u32> = (0..9).map(|row| 1000 + 17 * row).collect();
        let mut whole = vec![0; codec.message_bytes(9, n_cols)];
        codec.encode_all(&x, n_cols, &keys, draws(1), &mut whole).expect("finite");

        let selected_keys: Vec<u32> = selection.iter().map(|&row| keys[row as usize]).collect();
        let mut gathered = vec![0; codec.message_bytes(selection.len(), n_cols)];
        codec
            .encode_rows(&x, n_cols, &selection, &selected_keys, draws(1), &mut gathered)
            .expect("finite");
        let mut selected = vec![0xff; gathered.len()];
        codec.select_rows(&whole, 9, n_cols, &selection, &mut selected).expect("right length");
        prop_assert_eq!(&selected, &gathered);

        let decoded = decode(codec, &whole, 9, n_cols).expect("just encoded");
        let decoded_selection =
            decode(codec, &selected, selection.len(), n_cols).expect("just selected");
        for (row, &from) in decoded_selection.chunks(n_cols).zip(&selection) {
            prop_assert_eq!(row, &decoded[from as usize * n_cols..][..n_cols]);
        }
    }

    /// Adding is decoding and then adding, in order, also where a row is named twice.
    #[test]
    fn decode_add_adds(
        codec in prop::sample::select(all_codecs().collect::<Vec<_>>()),
        n_cols in 1_usize..20,
        row_ids in prop::collection::vec(0_u32..5, 0..9),
    ) {
        let n_rows = row_ids.len();
        let message = encode(codec, &matrix(n_rows, n_cols), n_rows, 3).expect("finite");
        let message = if n_rows == 0 { Vec::new() } else { message };
        let mut expected: Vec<f32> = (0..5 * n_cols).map(|i| i as f32 * 0.3).collect();
        let mut found = expected.clone();
        let decoded = decode(codec, &message, n_rows, n_cols).expect("just encoded");
        for (row, &id) in decoded.chunks(n_cols).zip(&row_ids) {
            for (slot, value) in expected[id as usize * n_cols..].iter_mut().zip(row) {
                *slot += value;
            }
        }
        codec.decode_add_rows(&message, n_cols, &row_ids, &mut found).expect("just encoded");
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn padding_bits_are_zero_and_not_read() {
    for width in [Width::One, Width::Two, Width::Four] {
        let codec = RowCodec::new(width);
        let message = encode(codec, &[0.0, 1.0, 1.0], 1, 1).expect("finite");
        let used = 3 * width.bits();
        let last = message[message.len() - 1];
        assert_eq!(last >> (used % 8), 0, "{width} bits");
        let mut dirty = message.clone();
        *dirty.last_mut().expect("not empty") |= 0xff << (used % 8);
        assert_eq!(decode(codec, &dirty, 1, 3), decode(codec, &message, 1, 3));
    }
}

#[test]
fn no_rows() {
    for codec in all_codecs() {
        for n_cols in [0, 1, 5] {
            codec.encode_all(&[], n_cols, &[], draws(1), &mut []).expect("nothing to refuse");
            codec.encode_rows(&[], n_cols, &[], &[], draws(1), &mut []).expect("nothing");
            codec.decode_rows(&[], n_cols, &mut []).expect("nothing");
            codec.decode_add_rows(&[], n_cols, &[], &mut []).expect("nothing");
            codec.select_rows(&[], 0, n_cols, &[], &mut []).expect("nothing");
        }
    }
}

#[test]
fn no_columns() {
    for codec in all_codecs() {
        let mut message = vec![0xff; codec.message_bytes(3, 0)];
        assert_eq!(message.len(), codec.metadata_bytes(3));
        codec.encode_all(&[], 0, &[1, 2, 3], draws(1), &mut message).expect("nothing to refuse");
        assert!(message.iter().all(|&byte| byte == 0), "zero point and scale are 0");
        codec.encode_rows(&[], 0, &[7, 8, 9], &[1, 2, 3], draws(1), &mut message).expect("same");
        codec.decode_rows(&message, 0, &mut []).expect("a whole number of rows");
        codec.decode_add_rows(&message, 0, &[4, 4, 4], &mut []).expect("three rows");
        let mut selected = vec![0xff; codec.message_bytes(1, 0)];
        codec.select_rows(&message, 3, 0, &[2], &mut selected).expect("three rows");
        assert!(selected.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn one_column() {
    for codec in all_codecs() {
        let x = [0.0, 1.0, -2.5, 0.5];
        let message = encode(codec, &x, 4, 1).expect("finite");
        assert_eq!(decode(codec, &message, 4, 1).expect("just encoded"), x, "{codec:?}");
    }
}

#[test]
fn half_precision_rounds_to_nearest_even() {
    let ulp = 1.0 / 1024.0;
    let x = [1.0 + 0.5 * ulp, 1.0 + 1.5 * ulp, 1.0 + 0.51 * ulp];
    let codec = RowCodec { width: Width::F16, metadata: MetadataType::F32 };
    let message = encode(codec, &x, 1, 1).expect("finite");
    assert_eq!(message.len(), 6);
    assert_eq!(decode(codec, &message, 1, 3), Ok(vec![1.0, 1.0 + 2.0 * ulp, 1.0 + ulp]));
    let ulp = 1.0 / 128.0;
    let x = [1.0 + 0.5 * ulp, 1.0 + 1.5 * ulp, 1.0 + 0.51 * ulp];
    let codec = RowCodec::new(Width::Bf16);
    let message = encode(codec, &x, 1, 1).expect("finite");
    assert_eq!(decode(codec, &message, 1, 3), Ok(vec![1.0, 1.0 + 2.0 * ulp, 1.0 + ulp]));
}

/// Whoever reads codes by itself decodes them with these pairs.
#[test]
fn levels_and_codes_are_what_is_decoded() {
    let (n_rows, n_cols) = (11, 24);
    for codec in quantized_codecs() {
        let message = encode(codec, &matrix(n_rows, n_cols), n_rows, 5).expect("finite");
        let mut levels = vec![[f32::NAN; 2]; n_rows];
        codec.read_row_levels(&message, n_cols, &mut levels).expect("just encoded");
        let decoded = decode(codec, &message, n_rows, n_cols).expect("just encoded");
        let (bits, payload) = (codec.width.bits(), &message[codec.metadata_bytes(n_rows)..]);
        for (row, &[zero, scale]) in levels.iter().enumerate() {
            assert_eq!((zero, scale), metadata(codec, &message, row));
            let payload = &payload[row * codec.row_payload_bytes(n_cols)..];
            for column in 0..n_cols {
                let byte = payload[column * bits / 8];
                let code = u32::from(byte >> (column * bits % 8)) & ((1 << bits) - 1);
                let value = zero + code as f32 * scale;
                assert_eq!(value, decoded[row * n_cols + column], "{codec:?}");
            }
        }
        let refused = |message: &[u8]| {
            codec.read_row_levels(message, n_cols, &mut [[0.0; 2]; 11]).expect_err("a bad message")
        };
        let mut bad = message.clone();
        bad[9 * codec.row_metadata_bytes()..][..codec.metadata.bytes()].fill(0xff);
        assert_eq!(refused(&bad), DecodeError::InvalidMetadata { row: 9 });
        assert!(matches!(refused(&message[1..]), DecodeError::WrongLength { .. }));
    }
}
