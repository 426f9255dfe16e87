//! Arrays in npy form, written as they come.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use sylvie_graph::Features;

use super::{each_row, failed};
use crate::error::DataError;

/// Bytes written at once.
pub(super) const BUFFER_BYTES: usize = 1 << 18;

/// A number that numpy knows.
pub(super) trait Number: Copy {
    /// Its type as numpy writes it.
    const DESCR: &str;

    /// Appends its bytes.
    fn put(self, bytes: &mut Vec<u8>);
}

macro_rules! number {
    ($($number:ty => $descr:literal),*) => {$(
        impl Number for $number {
            const DESCR: &str = $descr;

            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}

number!(i32 => "<i4", i64 => "<i8", u8 => "|u1", f32 => "<f4");

impl Number for bool {
    const DESCR: &str = "|b1";

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }
}

/// The header of an array of type `descr`, padded so that the values begin at a multiple of 64.
fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = format!("({}{comma})", extents.join(", "));
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    // Two extents of twenty digits are far below what 16 bits count.
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Writes an array of any number of dimensions from its values in row-major order.
pub(super) fn put<T: Number>(
    out: &mut impl Write,
    shape: &[usize],
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    out.write_all(&header(T::DESCR, shape))?;
    let mut bytes = Vec::with_capacity(BUFFER_BYTES + 8);
    for value in values {
        value.put(&mut bytes);
        if bytes.len() >= BUFFER_BYTES {
            out.write_all(&bytes)?;
            bytes.clear();
        }
    }
    out.write_all(&bytes)
}

/// Writes features, zeros and all, as one f32 matrix.
pub(super) fn put_features(out: &mut impl Write, features: &Features) -> io::Result<()> {
    out.write_all(&header(f32::DESCR, &[features.n_rows(), features.n_cols()]))?;
    let mut bytes = Vec::new();
    each_row(features, |row| {
        bytes.clear();
        row.iter().for_each(|&value| value.put(&mut bytes));
        out.write_all(&bytes)
    })
}

/// Writes short text as an array without dimensions, as scipy does a matrix's format.
pub(super) fn put_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let descr = format!("|S{}", text.len());
    let mut bytes = header(&descr, &[]);
    bytes.extend(text.as_bytes());
    out.write_all(&bytes)
}

/// Writes `folder/name`, by what `fill` writes.
pub(super) fn file(
    folder: &Path,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), DataError> {
    let path = folder.join(name);
    let write = || {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(&path)?);
        fill(&mut out)?;
        out.flush()
    };
    write().map_err(failed(&path))
}

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn values_begin_at_a_multiple_of_64() {
        for shape in [&[][..], &[3], &[1 << 40, 99_999], &[0, 1]] {
            let bytes = header("<f4", shape);
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), bytes.len() - 10);
        }
        let text = String::from_utf8_lossy(&header("<i8", &[5])[10..]).into_owned();
        assert!(text.starts_with("{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }"));
    }
}
