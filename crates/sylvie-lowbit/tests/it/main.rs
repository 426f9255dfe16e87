//! The codec held to its description: bytes, statistics, edges and hostile input.

mod bodies;
mod errors;
mod hostile;
mod identity;
mod independence;
mod messages;
mod power;
mod rows;
mod statistics;
mod widths;
mod wire_format;

use sylvie_lowbit::{DecodeError, EncodeError, MetadataType, RowCodec, Width};
use sylvie_random::{Coordinates, Family, Pass, Stream};

/// The widths that have a zero point and a scale.
const QUANTIZED: [Width; 4] = [Width::One, Width::Two, Width::Four, Width::Eight];

/// Every width with every metadata type.
fn all_codecs() -> impl Iterator<Item = RowCodec> {
    Width::ALL
        .into_iter()
        .flat_map(|width| MetadataType::ALL.map(|metadata| RowCodec { width, metadata }))
}

/// Every quantised width with every metadata type.
fn quantized_codecs() -> impl Iterator<Item = RowCodec> {
    all_codecs().filter(|codec| codec.width.is_quantized())
}

fn draws(seed: u64) -> Family {
    Coordinates::new(seed, Stream::Rounding).at(3, 1, Pass::Forward).family()
}

/// Encodes all rows under keys 100, 101, ...
fn encode(codec: RowCodec, x: &[f32], n_rows: usize, seed: u64) -> Result<Vec<u8>, EncodeError> {
    let n_cols = x.len().checked_div(n_rows).unwrap_or(0);
    let keys: Vec<u32> = (100..).take(n_rows).collect();
    // Not zeros, so that a byte left unwritten shows.
    let mut message = vec![0xa5; codec.message_bytes(n_rows, n_cols)];
    codec.encode_all(x, n_cols, &keys, draws(seed), &mut message)?;
    Ok(message)
}

fn decode(
    codec: RowCodec,
    message: &[u8],
    n_rows: usize,
    n_cols: usize,
) -> Result<Vec<f32>, DecodeError> {
    let mut decoded = vec![f32::NAN; n_rows * n_cols];
    codec.decode_rows(message, n_cols, &mut decoded)?;
    Ok(decoded)
}

/// One row, there and back.
fn round_trip(codec: RowCodec, row: &[f32], seed: u64) -> Vec<f32> {
    let message = encode(codec, row, 1, seed).expect("a row that can be encoded");
    decode(codec, &message, 1, row.len()).expect("a message just encoded")
}

/// Zero point and scale of row `row_idx`, read from the message without the crate's help.
fn metadata(codec: RowCodec, message: &[u8], row_idx: usize) -> (f32, f32) {
    let n_bytes = codec.metadata.bytes();
    let value = |value_idx: usize| {
        let bytes = &message[(2 * row_idx + value_idx) * n_bytes..][..n_bytes];
        match codec.metadata {
            MetadataType::F32 => f32::from_le_bytes(bytes.try_into().expect("4 bytes")),
            MetadataType::Bf16 => {
                half::bf16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32()
            }
            MetadataType::F16 => {
                half::f16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32()
            }
        }
    };
    (value(0), value(1))
}

/// All levels of a row, as its metadata says.
fn levels(codec: RowCodec, message: &[u8], row_idx: usize) -> Vec<f32> {
    let (zero, scale) = metadata(codec, message, row_idx);
    let max_code = codec.width.max_code().expect("a quantised width");
    (0..=max_code).map(|code| zero + code as f32 * scale).collect()
}
