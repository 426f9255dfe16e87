//! Rows as bytes: those of the codec, on every machine.

use sylvie_lowbit::{DecodeError, EncodeError, MetadataType, RowCodec, Width};
use sylvie_random::Stream;
use sylvie_tensor::Wire;

use super::{Host, draws, some_of};

/// Every width, and every type of metadata at each that has any.
fn codecs() -> Vec<RowCodec> {
    let of = |width: Width| {
        let types =
            if width.is_quantized() { &MetadataType::ALL[..] } else { &MetadataType::ALL[..1] };
        types.iter().map(move |&metadata| RowCodec { width, metadata })
    };
    Width::ALL.into_iter().flat_map(of).collect()
}

/// Rows of very different ranges: plain, constant, zero, subnormal, with signed zeros.
fn rows_of_all_kinds(n_rows: usize, n_cols: usize) -> Host {
    let mut x = Host::random(1, n_rows, n_cols);
    for (row, values) in x.values.chunks_exact_mut(n_cols.max(1)).enumerate() {
        match row % 7 {
            0 => values.fill(-0.7),
            1 => values.fill(0.0),
            2 => values.iter_mut().for_each(|v| *v *= 1e-39),
            3 => values.iter_mut().for_each(|v| *v = v.max(0.0).copysign(*v)),
            4 => values.iter_mut().for_each(|v| *v = *v * 1e-3 + 100.0),
            _ => {}
        }
    }
    x
}

/// Encoding, selecting, decoding and adding give the bits of the codec on the host.
pub fn bytes_of_the_codec<B: Wire>(backend: &B) {
    for (n_rows, n_cols) in [(1, 1), (0, 5), (3, 0), (21, 7), (40, 64), (9, 131), (300, 17)] {
        let x = rows_of_all_kinds(n_rows, n_cols);
        let on_device = x.on(backend);
        let keys: Vec<u32> = (0..n_rows as u32).map(|row| row * 9 + 100).collect();
        let rows = some_of(4, n_rows);
        let row_keys: Vec<u32> = rows.iter().map(|&row| keys[row as usize]).collect();
        let index = |values: &[u32]| backend.upload_index(values);
        let (rows_on, all_keys, row_keys_on) = (index(&rows), index(&keys), index(&row_keys));
        let family = draws(Stream::Rounding, 3);
        for codec in codecs() {
            let what = format!("{n_rows} x {n_cols}, {codec:?}");
            let mut expected = vec![0; codec.message_bytes(n_rows, n_cols)];
            codec.encode_all(&x.values, n_cols, &keys, family, &mut expected).expect("finite rows");
            let used = backend.bytes_from_host(vec![0xa5; 77]);
            let all = backend.encode_all_rows(codec, &on_device, &all_keys, family, used);
            let all = all.expect("finite rows");
            let mut some = vec![0; codec.message_bytes(rows.len(), n_cols)];
            codec.select_rows(&expected, n_rows, n_cols, &rows, &mut some).expect("a message");
            let empty = backend.bytes_from_host(Vec::new());
            let encoded =
                backend.encode_rows(codec, &on_device, &rows_on, &row_keys_on, family, empty);
            let encoded = backend.bytes_to_host(encoded.expect("finite rows"));
            assert!(encoded == some, "encode_rows, {what}");
            let empty = backend.bytes_from_host(Vec::new());
            let selected = backend.select_rows(codec, &all, (n_rows, n_cols), &rows_on, empty);
            let selected = selected.expect("a message of that shape");

            let mut decoded = vec![0.0; rows.len() * n_cols];
            codec.decode_rows(&some, n_cols, &mut decoded).expect("a message");
            let mut found = backend.matrix_to_assign(rows.len(), n_cols);
            backend.decode_rows(codec, &selected, &mut found).expect("a message");
            assert_bits(&backend.download(&found), &decoded, &format!("decode_rows, {what}"));
            // In order, and with places that repeat.
            let repeated: Vec<u32> = rows.iter().map(|row| row / 2).collect();
            for places in [&rows, &repeated] {
                let mut sums = Host::random(6, n_rows, n_cols);
                let mut found = sums.on(backend);
                codec.decode_add_rows(&some, n_cols, places, &mut sums.values).expect("a message");
                let added = backend.decode_add_rows(codec, &selected, &index(places), &mut found);
                added.expect("a message");
                let what = format!("decode_add_rows, {what}");
                assert_bits(&backend.download(&found), &sums.values, &what);
            }
            assert!(backend.bytes_to_host(selected) == some, "select_rows, {what}");
            assert!(backend.bytes_to_host(all) == expected, "encode_all_rows, {what}");
        }
    }
}

fn assert_bits(found: &[f32], expected: &[f32], what: &str) {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert!(bits(found) == bits(expected), "{what}");
}

/// Rows that cannot be encoded and messages that are none are the codec's errors.
pub fn bad_messages<B: Wire>(backend: &B) {
    let (n_rows, n_cols) = (20, 40);
    let good = Host::random(1, n_rows, n_cols);
    let keys: Vec<u32> = (0..n_rows as u32).collect();
    let all_keys = backend.upload_index(&keys);
    let family = draws(Stream::Rounding, 3);
    for codec in codecs() {
        for value in [f32::NAN, f32::INFINITY, f32::MAX, -f32::MAX] {
            let mut bad = good.clone();
            for place in [3 * n_cols + 33, 7 * n_cols, 19 * n_cols + 39] {
                bad.values[place] = value;
                bad.values[place - 1] = -value;
            }
            let mut message = vec![0; codec.message_bytes(n_rows, n_cols)];
            let expected: Result<(), EncodeError> =
                codec.encode_all(&bad.values, n_cols, &keys, family, &mut message);
            let empty = backend.bytes_from_host(Vec::new());
            let found = backend.encode_all_rows(codec, &bad.on(backend), &all_keys, family, empty);
            assert_eq!(found.map(drop), expected, "{codec:?}, {value}");
        }
        let mut message = vec![0; codec.message_bytes(n_rows, n_cols)];
        codec.encode_all(&good.values, n_cols, &keys, family, &mut message).expect("finite rows");
        let mut spoiled = message.clone();
        let row_len = match codec.row_metadata_bytes() {
            0 => codec.row_payload_bytes(n_cols),
            len => len,
        };
        for row in [17, 5] {
            spoiled[row * row_len..(row + 1) * row_len].fill(0xff);
        }
        let short = message[1..].to_vec();
        for bad in [spoiled, short] {
            let expected: Result<(), DecodeError> =
                codec.decode_rows(&bad, n_cols, &mut vec![0.0; n_rows * n_cols]);
            let bytes = backend.bytes_from_host(bad);
            let mut out = backend.zeros(n_rows, n_cols);
            assert_eq!(backend.decode_rows(codec, &bytes, &mut out), expected, "{codec:?}");
            let added = backend.decode_add_rows(codec, &bytes, &all_keys, &mut out);
            assert_eq!(added, expected, "{codec:?}, added");
            if let Err(DecodeError::WrongLength { .. }) = &expected {
                let empty = backend.bytes_from_host(Vec::new());
                let shape = (n_rows, n_cols);
                let selected = backend.select_rows(codec, &bytes, shape, &all_keys, empty);
                assert_eq!(selected.map(drop), expected, "{codec:?}, selected");
            }
        }
    }
}
