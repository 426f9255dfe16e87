//! Arrays of floats in npy form: those that are stored as they stay are read to their place, from a file by all threads.

use std::fs::File;
use std::io::{self, BufReader, Read};

use npyz::{DType, Endianness, TypeChar};
use rayon::prelude::*;

use crate::error::DataError;
use crate::npy::{Array, Kind, MAX_FIRST_VALUES, NUMBERS, Npy, Number, PIECE_VALUES, finish};
use crate::npy_values::fill;

impl<R: Read> Npy<R> {
    /// Features, of any type.
    pub(crate) fn floats(self) -> Result<Array<f32>, DataError> {
        self.expect_kind(&[Kind::Bool, Kind::Integer, Kind::Float], NUMBERS)?;
        if self.is_stored_as_floats() {
            return self.into_stored();
        }
        self.convert("a number", |number| match number {
            Number::Integer(value) => Some(value as f32),
            Number::Float(value) => Some(value as f32),
        })
    }

    /// Whether the bytes of the file are those of the values, in their order.
    fn is_stored_as_floats(&self) -> bool {
        let DType::Plain(type_str) = self.header.dtype() else { return false };
        let endianness =
            if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
        let is_float = (type_str.type_char(), type_str.size_field()) == (TypeChar::Float, 4);
        is_float && type_str.endianness() == endianness
    }

    /// Reads values to where they stay.
    fn into_stored(self) -> Result<Array<f32>, DataError> {
        let Self { place, shape, n_values, header, mut reader, .. } = self;
        let mut values: Vec<f32> = Vec::with_capacity(n_values.min(MAX_FIRST_VALUES));
        while values.len() < n_values {
            let begin = values.len();
            values.resize(begin + PIECE_VALUES.min(n_values - begin), 0.0);
            let piece = bytemuck::cast_slice_mut(&mut values[begin..]);
            if let Err((n_read, problem)) = fill(&mut reader, piece) {
                let position = begin + n_read / size_of::<f32>();
                return Err(DataError::Unreadable { place, position, problem });
            }
        }
        finish(place, shape, values, header.order(), reader)
    }
}

impl Npy<BufReader<File>> {
    /// As [`Npy::floats`], by all threads where the values are stored as they stay: copying out of the system's cache
    /// and the first touch of new pages are most of the work.
    pub(crate) fn floats_of_file(self) -> Result<Array<f32>, DataError> {
        if cfg!(unix) && self.is_stored_as_floats() {
            return self.stored_by_all();
        }
        self.floats()
    }

    fn stored_by_all(self) -> Result<Array<f32>, DataError> {
        let Self { place, shape, n_values, header, n_prefix, reader } = self;
        // As many as the file has bytes for, which was checked with its header.
        let Ok(mut values) = bytemuck::allocation::try_zeroed_vec::<f32>(n_values) else {
            let problem = io::ErrorKind::OutOfMemory.into();
            return Err(DataError::Unreadable { place, position: 0, problem });
        };
        let file = reader.get_ref();
        let failed =
            values.par_chunks_mut(PIECE_VALUES).enumerate().filter_map(|(number, piece)| {
                let begin = number * PIECE_VALUES;
                let at = n_prefix + (begin * size_of::<f32>()) as u64;
                let problem = read_at(file, bytemuck::cast_slice_mut(piece), at).err()?;
                Some((begin, problem))
            });
        if let Some((position, problem)) = failed.min_by_key(|(position, _)| *position) {
            return Err(DataError::Unreadable { place, position, problem });
        }
        finish(place, shape, values, header.order(), io::empty())
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(not(unix))]
fn read_at(_file: &File, _bytes: &mut [u8], _at: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::PIECE_VALUES;
    use crate::npy::open_npy;

    /// A file of so many rows of 3 columns, and its values in row-major order.
    fn write(folder: &Path, descr: &str, order: &str, n_rows: usize) -> Vec<f32> {
        let mut text =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({n_rows}, 3), }}");
        text.extend(std::iter::repeat_n(' ', 63 - (10 + text.len()) % 64));
        text.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
        let value = |row: usize, col: usize| (row * 3 + col) as f32 - 0.5;
        let stored: Vec<f32> = match order {
            "False" => (0..n_rows * 3).map(|at| value(at / 3, at % 3)).collect(),
            _ => (0..n_rows * 3).map(|at| value(at % n_rows, at / n_rows)).collect(),
        };
        for value in stored {
            match descr {
                "<f4" => bytes.extend(value.to_le_bytes()),
                ">f4" => bytes.extend(value.to_be_bytes()),
                _ => bytes.extend(f64::from(value).to_le_bytes()),
            }
        }
        fs::write(folder.join("feat.npy"), bytes).unwrap();
        (0..n_rows * 3).map(|at| value(at / 3, at % 3)).collect()
    }

    #[test]
    fn all_threads_read_what_one_reads() {
        let folder = tempfile::tempdir().unwrap();
        // Several pieces and a rest, one value less than a piece, and nothing.
        for n_rows in [PIECE_VALUES + 5, PIECE_VALUES / 3, 0] {
            for (descr, order) in
                [("<f4", "False"), ("<f4", "True"), (">f4", "False"), ("<f8", "True")]
            {
                let expected = write(folder.path(), descr, order, n_rows);
                let by_all = open_npy(folder.path(), "feat").unwrap().floats_of_file().unwrap();
                let by_one = open_npy(folder.path(), "feat").unwrap().floats().unwrap();
                assert_eq!(by_all, by_one, "{n_rows} {descr} {order}");
                assert_eq!(
                    (by_all.shape, by_all.values),
                    (vec![n_rows, 3], expected),
                    "{descr} {order}"
                );
            }
        }
    }
}
