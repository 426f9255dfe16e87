//! Rows of floating-point values: plain little-endian numbers, without metadata.

use half::{bf16, f16};

use crate::{DecodeError, EncodeError, Width};

/// Writes one row at a floating-point width.
///
/// # Errors
/// [`EncodeError::NotFinite`] and [`EncodeError::ValueOverflow`], naming row `row_idx`.
pub(crate) fn encode(
    row: &[f32],
    row_idx: usize,
    width: Width,
    payload: &mut [u8],
) -> Result<(), EncodeError> {
    let all_finite = match width {
        Width::F16 => encode_values(row, payload, |value| {
            let half = f16::from_f32(value);
            (half.to_le_bytes(), half.is_finite())
        }),
        Width::Bf16 => encode_values(row, payload, |value| {
            let half = bf16::from_f32(value);
            (half.to_le_bytes(), half.is_finite())
        }),
        _ => encode_values(row, payload, |value| (value.to_le_bytes(), value.is_finite())),
    };
    if all_finite { Ok(()) } else { Err(complaint(row, row_idx, width)) }
}

/// Reads one row at a floating-point width, handing each value to `put`.
///
/// # Errors
/// [`DecodeError::NotFinite`], naming row `row_idx`.
pub(crate) fn decode(
    payload: &[u8],
    row_idx: usize,
    width: Width,
    row: &mut [f32],
    put: impl Fn(&mut f32, f32),
) -> Result<(), DecodeError> {
    match width {
        Width::F16 => decode_values(payload, row, put, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Width::Bf16 => {
            decode_values(payload, row, put, |bytes| bf16::from_le_bytes(bytes).to_f32())
        }
        _ => decode_values(payload, row, put, f32::from_le_bytes),
    }
    .map_err(|column| DecodeError::NotFinite { row: row_idx, column })
}

/// Writes every value; whether all came out finite.
fn encode_values<const N_BYTES: usize>(
    row: &[f32],
    payload: &mut [u8],
    encode: impl Fn(f32) -> ([u8; N_BYTES], bool),
) -> bool {
    let mut all_finite = true;
    for (&value, bytes) in row.iter().zip(payload.as_chunks_mut::<N_BYTES>().0) {
        let finite;
        (*bytes, finite) = encode(value);
        all_finite &= finite;
    }
    all_finite
}

/// Reads every value, or names the first column that is not finite and puts nothing.
fn decode_values<const N_BYTES: usize>(
    payload: &[u8],
    row: &mut [f32],
    put: impl Fn(&mut f32, f32),
    decode: impl Fn([u8; N_BYTES]) -> f32,
) -> Result<(), usize> {
    let (values, _) = payload.as_chunks::<N_BYTES>();
    let all_finite = values.iter().fold(true, |all, &bytes| all & decode(bytes).is_finite());
    if !all_finite {
        let column = values.iter().position(|&bytes| !decode(bytes).is_finite());
        return Err(column.expect("one of the values is not finite"));
    }
    for (slot, &bytes) in row.iter_mut().zip(values) {
        put(slot, decode(bytes));
    }
    Ok(())
}

/// Names what kept a row from being encoded: input that is not finite before what overflowed.
fn complaint(row: &[f32], row_idx: usize, width: Width) -> EncodeError {
    if let Some(column) = row.iter().position(|value| !value.is_finite()) {
        return EncodeError::NotFinite { row: row_idx, column };
    }
    let overflows = |value: &f32| match width {
        Width::F16 => !f16::from_f32(*value).is_finite(),
        Width::Bf16 => !bf16::from_f32(*value).is_finite(),
        _ => false,
    };
    let column = row.iter().position(overflows).expect("one of the values overflows");
    EncodeError::ValueOverflow { row: row_idx, column, width }
}
