//! What is done with arbitrary bytes, by a property test here and by the fuzz targets in `fuzz/`.

use sylvie_lowbit::{MetadataType, Plain, RowCodec, Width};
use sylvie_random::{Coordinates, Stream};

/// Reads a plan (codec, rows, columns, whether the length is made to fit) from the first four bytes, and
/// takes the rest for a message. Whatever the bytes: no panic, only finite values, and the same from every
/// implementation.
pub(crate) fn decode_anything(data: &[u8]) {
    let [codec, n_rows, n_cols, fit, rest @ ..] = data else { return };
    let codec = codec_from(*codec);
    let (n_rows, n_cols) = (usize::from(n_rows % 8), usize::from(*n_cols));
    let mut message = rest.to_vec();
    if fit % 4 != 0 {
        message.resize(codec.message_bytes(n_rows, n_cols), *fit);
    }
    let mut out = vec![0.0; n_rows * n_cols];
    let decoded = codec.decode_rows(&message, n_cols, &mut out);
    assert!(out.iter().all(|value| value.is_finite()));
    let fits = message.len() == codec.message_bytes(n_rows, n_cols);
    assert!(fits || decoded.is_err() || n_cols == 0);

    let mut plain = vec![0.0; out.len()];
    assert_eq!(Plain(codec).decode_rows(&message, n_cols, &mut plain), decoded);
    assert_eq!(out, plain);
    let mut streamed = vec![0.0; out.len()];
    assert_eq!(codec.decode_rows_streaming(&message, n_cols, &mut streamed), decoded);
    assert_eq!(out, streamed);

    let row_ids: Vec<u32> = (0..n_rows as u32).rev().collect();
    let (mut sum, mut plain_sum) = (out.clone(), out);
    let added = codec.decode_add_rows(&message, n_cols, &row_ids, &mut sum);
    assert_eq!(Plain(codec).decode_add_rows(&message, n_cols, &row_ids, &mut plain_sum), added);
    assert!(sum == plain_sum && added.is_ok() <= fits);

    let mut selected = vec![0; codec.message_bytes(n_rows, n_cols)];
    let copied = codec.select_rows(&message, n_rows, n_cols, &row_ids, &mut selected);
    assert_eq!(copied.is_ok(), fits);
}

/// Reads a plan from the first 13 bytes, and takes the rest for values. Whatever their bits: no panic, the
/// same bytes or the same refusal from every implementation, and what is encoded can be decoded.
pub(crate) fn encode_anything(data: &[u8]) {
    let Some((plan, bits)) = data.split_first_chunk::<13>() else { return };
    let [codec, n_cols, numbers @ ..] = *plan;
    let (codec, n_cols) = (codec_from(codec), usize::from(n_cols));
    let values = bits.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
    let n_rows = (bits.len() / 4).checked_div(n_cols).unwrap_or(1);
    let x: Vec<f32> = values.take(n_rows * n_cols).collect();
    let seed = u64::from_le_bytes(numbers[..8].try_into().expect("8 bytes"));
    let draws = Coordinates::new(seed, Stream::Rounding).family();
    let keys: Vec<u32> = (u32::from(numbers[8])..).take(n_rows).collect();
    let mut message = vec![0xff; codec.message_bytes(n_rows, n_cols)];
    let mut plain = message.clone();
    let encoded = codec.encode_all(&x, n_cols, &keys, draws, &mut message);
    assert_eq!(Plain(codec).encode_all(&x, n_cols, &keys, draws, &mut plain), encoded);
    if encoded.is_ok() {
        assert_eq!(message, plain);
        let mut decoded = vec![0.0; x.len()];
        codec.decode_rows(&message, n_cols, &mut decoded).expect("a message just encoded");
    }
}

fn codec_from(byte: u8) -> RowCodec {
    let (width, metadata) = (usize::from(byte) % 7, usize::from(byte) / 7 % 3);
    RowCodec { width: Width::ALL[width], metadata: MetadataType::ALL[metadata] }
}
