//! Every implementation against the plain version, byte for byte.

use proptest::prelude::*;
use sylvie_lowbit::{Plain, RowCodec};
use sylvie_random::{Coordinates, Pass, Stream};

use crate::{all_codecs, draws};

/// Values of one kind of row: every sort of magnitude, offset and repetition.
fn value_kinds() -> impl Strategy<Value = BoxedStrategy<f32>> {
    let scaled = |magnitude: f32, offset: f32| {
        let value = prop_oneof![1 => Just(0.0), 1 => Just(-0.0), 8 => -1.0_f32..1.0];
        value.prop_map(move |value| magnitude * value + offset).boxed()
    };
    let finite = any::<u32>().prop_map(|bits| f32::from_bits(bits & 0xbf7f_ffff)).boxed();
    let grid = (0_u32..=512).prop_map(|k| k as f32 / 128.0).boxed();
    let neighbours = (0x4f00_0000_u32..0x4f00_0040).prop_map(f32::from_bits).boxed();
    let subnormal = (0_u32..500).prop_map(f32::from_bits).boxed();
    let relu = (-1.0_f32..1.0).prop_map(|value| value.max(0.0)).boxed();
    let kinds = vec![
        scaled(1.0, 0.0),
        scaled(1e-7, 0.0),
        scaled(1e30, 0.0),
        scaled(1e-35, 0.0),
        scaled(1.0, 10.0),
        scaled(1.0, -200.0),
        scaled(1.0, 3000.0),
        scaled(1e-3, 1e5),
        scaled(0.0, 0.1),
        finite,
        grid,
        neighbours,
        subnormal,
        relu,
    ];
    prop::sample::select(kinds)
}

/// A few rows of two kinds, from none to a few thousand columns; one in four with a value that cannot be
/// encoded.
fn matrices() -> impl Strategy<Value = (usize, Vec<Vec<f32>>)> {
    let shape = prop_oneof![
        6 => (0_usize..70, 1_usize..20),
        4 => (70_usize..300, 1_usize..10),
        2 => (500_usize..1100, 1_usize..4),
        1 => (2000_usize..4500, 1_usize..3),
    ];
    let kinds = (value_kinds(), value_kinds());
    let wrong = prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38]);
    let wrong = (wrong, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let wrong = prop_oneof![3 => Just(None), 1 => wrong.prop_map(Some)];
    (shape, kinds, wrong).prop_flat_map(|((n_cols, n_rows), (a, b), wrong)| {
        let row = prop_oneof![
            6 => prop::collection::vec(a.clone(), n_cols),
            2 => prop::collection::vec(b, n_cols),
            1 => a.prop_map(move |value| vec![value; n_cols]),
        ];
        prop::collection::vec(row, n_rows).prop_map(move |mut rows| {
            if let (Some((value, row, column)), true) = (&wrong, n_cols > 0) {
                rows[row.index(n_rows)][column.index(n_cols)] = *value;
            }
            (n_cols, rows)
        })
    })
}

fn any_codec() -> impl Strategy<Value = RowCodec> {
    prop::sample::select(all_codecs().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn encoding_writes_the_plain_bytes(
        codec in any_codec(),
        (n_cols, rows) in matrices(),
        seed in any::<u64>(),
        keys in any::<[u32; 20]>(),
        (epoch, layer, reader) in any::<(u32, u8, Option<u16>)>(),
        // Where in a larger array the values and the message begin.
        (skip_values, skip_bytes) in (0_usize..8, 0_usize..32),
    ) {
        let mut coordinates =
            Coordinates::new(seed, Stream::Rounding).at(epoch, layer, Pass::Backward);
        coordinates.reader = reader;
        let family = coordinates.family();
        let (x, n_rows) = (rows.concat(), rows.len());
        let keys = &keys[..n_rows];
        let n_bytes = codec.message_bytes(n_rows, n_cols);
        let mut expected = vec![0x5a; n_bytes];
        let expected_result = Plain(codec).encode_all(&x, n_cols, keys, family, &mut expected);

        let mut padded = vec![f32::NAN; skip_values];
        padded.extend(&x);
        let mut found = vec![0xa5; skip_bytes + n_bytes + 32];
        let target = &mut found[skip_bytes..][..n_bytes];
        let result = codec.encode_all(&padded[skip_values..], n_cols, keys, family, target);
        prop_assert_eq!(&result, &expected_result);
        if result.is_ok() {
            prop_assert_eq!(&*target, &expected);
        }
        prop_assert!(found[skip_bytes + n_bytes..].iter().all(|&byte| byte == 0xa5));

        // Some rows twice, some never.
        let ids: Vec<u32> = (0..n_rows).map(|row| ((row * 5 / 3 + 2) % n_rows) as u32).collect();
        let gathered_keys: Vec<u32> = ids.iter().map(|&id| keys[id as usize]).collect();
        let mut expected = vec![0; n_bytes];
        let mut found = vec![0; n_bytes];
        let plain = Plain(codec)
            .encode_rows(&x, n_cols, &ids, &gathered_keys, family, &mut expected);
        let result = codec.encode_rows(&x, n_cols, &ids, &gathered_keys, family, &mut found);
        prop_assert_eq!(&result, &plain);
        prop_assert!(result.is_err() || found == expected);
    }

    /// Any bytes: the same values or the same refusal, assigned, added and streamed.
    #[test]
    fn decoding_gives_the_plain_values(
        codec in any_codec(),
        n_cols in prop_oneof![0_usize..70, 70_usize..300, 2000_usize..2100],
        n_rows in prop_oneof![4 => 0_usize..5, 2 => 5_usize..30],
        seed in any::<u64>(),
        valid in any::<bool>(),
        // A row, if there are so many, that no encoder writes.
        invalid_row in 0_usize..40,
        (skip_values, skip_bytes) in (0_usize..20, 0_usize..32),
    ) {
        let n_bytes = codec.message_bytes(n_rows, n_cols);
        let mut bytes = vec![0; skip_bytes + n_bytes];
        let family = draws(seed);
        for (idx, byte) in bytes.iter_mut().enumerate() {
            *byte = family.block(0, idx as u32)[0] as u8;
        }
        let message = &mut bytes[skip_bytes..];
        if valid {
            // Small positive numbers of every type.
            message.iter_mut().for_each(|byte| *byte &= 0x3f);
            let metadata_bytes = codec.row_metadata_bytes();
            if metadata_bytes > 0 && invalid_row < n_rows {
                message[invalid_row * metadata_bytes..][..metadata_bytes].fill(0xff);
            }
        }
        let n_values = n_rows * n_cols;
        let start: Vec<f32> = (0..skip_values + n_values).map(|i| i as f32 * 0.3 - 7.0).collect();

        let mut expected = start.clone();
        let mut found = start.clone();
        let plain = Plain(codec).decode_rows(message, n_cols, &mut expected[skip_values..]);
        let result = codec.decode_rows(message, n_cols, &mut found[skip_values..]);
        prop_assert_eq!(&result, &plain);
        prop_assert_eq!(bits(&found), bits(&expected));

        let mut found = start.clone();
        let result = codec.decode_rows_streaming(message, n_cols, &mut found[skip_values..]);
        prop_assert_eq!(&result, &plain);
        prop_assert_eq!(bits(&found), bits(&expected));

        let (mut expected, mut found) = (start.clone(), start);
        // Some rows twice, some never.
        let ids: Vec<u32> = (0..n_rows).map(|row| (row * 5 / 3 % n_rows) as u32).collect();
        let plain = Plain(codec)
            .decode_add_rows(message, n_cols, &ids, &mut expected[skip_values..]);
        let result = codec.decode_add_rows(message, n_cols, &ids, &mut found[skip_values..]);
        prop_assert_eq!(&result, &plain);
        prop_assert_eq!(bits(&found), bits(&expected));
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Values on and beside every 256th of a step, where an approximate decision is hardest, under many
/// draws.
#[test]
fn values_at_the_edges_of_a_decision() {
    for codec in crate::quantized_codecs() {
        let max_code = codec.width.max_code().expect("quantised");
        let n_cols = 1024;
        for (offset, scale) in [(0.0_f32, 1.0_f32), (-3.0, 0.25), (100.0, 2.0), (-1e-8, 1e-9)] {
            let value = |column: usize| {
                let at = offset + scale * (column as u32 * max_code) as f32 / n_cols as f32;
                let ulps = (column % 5) as i32 - 2;
                f32::from_bits(at.to_bits().wrapping_add_signed(ulps))
            };
            let mut row: Vec<f32> = (0..n_cols).map(value).collect();
            (row[0], row[1]) = (offset, offset + scale * max_code as f32);
            let x = row.repeat(8);
            let keys: Vec<u32> = (0..8).collect();
            let mut expected = vec![0; codec.message_bytes(8, n_cols)];
            let mut found = expected.clone();
            Plain(codec).encode_all(&x, n_cols, &keys, draws(9), &mut expected).expect("finite");
            codec.encode_all(&x, n_cols, &keys, draws(9), &mut found).expect("finite");
            assert_eq!(found, expected, "{codec:?} {offset} {scale}");
        }
    }
}
