//! Arrays in npy form, from files and from archive members.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use half::f16;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use crate::error::{DataError, Place};
use crate::file;
use crate::labels::{MISSING_FLAG, NO_LABEL};
use crate::npy_header::read_prefix;
use crate::npy_values::{Stored, fill};

/// Room made before values are seen; more grows as they are read.
pub(crate) const MAX_FIRST_VALUES: usize = 1 << 16;
/// Values converted at once.
pub(crate) const PIECE_VALUES: usize = 1 << 15;
/// Longest text taken from an array of strings.
const MAX_TEXT_BYTES: usize = 64;

pub(crate) const NUMBERS: &str = "numbers (f2, f4, f8, i1 to i8, u1 to u8, b1)";
const INTEGERS: &str = "integers (i1 to i8, u1 to u8)";

/// Values in row-major order, whatever order the file has them in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array<T> {
    pub(crate) place: Place,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<T>,
}

impl<T> Array<T> {
    /// Checks the number of rows.
    pub(crate) fn expect_rows(&self, n_rows: usize, what: &str) -> Result<(), DataError> {
        if self.shape.first() == Some(&n_rows) {
            return Ok(());
        }
        let expected = format!("{n_rows} rows, {what},");
        let (place, found) = (self.place.clone(), self.shape.clone());
        Err(DataError::WrongShape { place, found, expected })
    }
}

/// What a number is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Integer,
    Float,
}

/// One stored number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

/// An array whose header is read and agrees with the bytes there.
pub(crate) struct Npy<R: Read> {
    pub(crate) place: Place,
    pub(crate) shape: Vec<usize>,
    pub(crate) n_values: usize,
    pub(crate) header: NpyHeader,
    /// Bytes before the first value.
    pub(crate) n_prefix: u64,
    pub(crate) reader: R,
}

/// Opens `folder/name.npy`.
pub(crate) fn open_npy(folder: &Path, name: &str) -> Result<Npy<BufReader<File>>, DataError> {
    let path = folder.join(format!("{name}.npy"));
    let file = file::open(&path)?;
    let place = Place::file(&path);
    let metadata = file.metadata().map_err(DataError::open(&path))?;
    Npy::new(place, BufReader::with_capacity(1 << 16, file), metadata.len())
}

impl<R: Read> Npy<R> {
    /// Reads the header of an array that takes `n_bytes` with it.
    ///
    /// # Errors
    /// A header that cannot be read, or that announces more or fewer bytes than there are.
    pub(crate) fn new(place: Place, mut reader: R, n_bytes: u64) -> Result<Self, DataError> {
        let prefix = read_prefix(&place, &mut reader)?;
        let bad = |problem: String| DataError::Header { place: place.clone(), problem };
        let header = NpyHeader::from_reader(&prefix[..]).map_err(|error| bad(error.to_string()))?;
        let shape: Vec<usize> = header.shape().iter().map(|&extent| extent as usize).collect();
        let n_values = shape.iter().product();
        if let DType::Plain(type_str) = header.dtype()
            && let Some(n_value_bytes) = type_str.num_bytes()
        {
            let expected = (n_values as u64)
                .checked_mul(n_value_bytes as u64)
                .ok_or_else(|| bad("more bytes than 64 bits count".to_owned()))?;
            let found = n_bytes.saturating_sub(prefix.len() as u64);
            if found != expected {
                return Err(DataError::WrongLength { place, expected, found });
            }
        }
        Ok(Self { place, shape, n_values, header, n_prefix: prefix.len() as u64, reader })
    }

    /// What its numbers are stored as; `None` when it holds no numbers.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let DType::Plain(type_str) = self.header.dtype() else { return None };
        match (type_str.type_char(), type_str.size_field()) {
            (TypeChar::Bool, 1) => Some(Kind::Bool),
            (TypeChar::Int | TypeChar::Uint, 1 | 2 | 4 | 8) => Some(Kind::Integer),
            (TypeChar::Float, 2 | 4 | 8) => Some(Kind::Float),
            _ => None,
        }
    }

    /// Whether it has rows of flags: two dimensions, and not one column of integers.
    pub(crate) fn has_flag_rows(&self) -> bool {
        self.shape.len() == 2 && !self.is_integer_column()
    }

    fn is_integer_column(&self) -> bool {
        matches!(self.shape[..], [_, 1]) && self.kind() == Some(Kind::Integer)
    }

    /// One integer a row: checks that there is one dimension, or a second of extent 1.
    pub(crate) fn one_a_row(self) -> Result<Self, DataError> {
        if self.is_integer_column() { Ok(self) } else { self.dims(1) }
    }

    /// Checks the number of dimensions.
    pub(crate) fn dims(self, n_dims: usize) -> Result<Self, DataError> {
        if self.shape.len() == n_dims {
            return Ok(self);
        }
        let expected = format!("{n_dims} dimension{}", if n_dims == 1 { "" } else { "s" });
        Err(DataError::WrongShape { place: self.place, found: self.shape, expected })
    }

    /// Node or column numbers.
    pub(crate) fn ids(self) -> Result<Array<u32>, DataError> {
        self.integers_as("an index from 0 to 4294967295")
    }

    /// Row offsets or extents.
    pub(crate) fn offsets(self) -> Result<Array<u64>, DataError> {
        self.integers_as("a number from 0")
    }

    /// Labels, where negative ones mean something.
    pub(crate) fn integers(self) -> Result<Array<i64>, DataError> {
        self.integers_as("a 64-bit integer")
    }

    /// Columns of a matrix; 1 for a vector.
    pub(crate) fn n_columns(&self) -> usize {
        if let [_, n_cols] = self.shape[..] { n_cols } else { 1 }
    }

    /// One class a row: integers, or floats of which a NaN is no class.
    pub(crate) fn classes(mut self) -> Result<Array<i64>, DataError> {
        if self.kind() != Some(Kind::Float) {
            return self.one_a_row()?.integers();
        }
        if let [n_rows, 1] = self.shape[..] {
            self.shape = vec![n_rows];
        }
        const EXACT: f64 = 9_007_199_254_740_992.0;
        self.dims(1)?.convert("a class, or NaN for none", |number| match number {
            Number::Float(value) if value.is_nan() => Some(NO_LABEL),
            Number::Float(value) => {
                (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i64)
            }
            Number::Integer(_) => None,
        })
    }

    /// As [`Npy::flags`], with a NaN for what is not known.
    pub(crate) fn flags_or_missing(self) -> Result<Array<u8>, DataError> {
        self.expect_kind(&[Kind::Bool, Kind::Integer, Kind::Float], NUMBERS)?;
        self.convert("0 or 1, or NaN where nothing is known", |number| match number {
            Number::Float(value) if value.is_nan() => Some(MISSING_FLAG),
            number => flag(number),
        })
    }

    /// Yes or no, as bool or as 0 and 1 of any type.
    pub(crate) fn flags(self) -> Result<Array<u8>, DataError> {
        self.expect_kind(&[Kind::Bool, Kind::Integer, Kind::Float], NUMBERS)?;
        self.convert("0 or 1", flag)
    }

    /// One short ASCII string, as scipy writes a matrix's format.
    pub(crate) fn text(mut self) -> Result<String, DataError> {
        let DType::Plain(type_str) = self.header.dtype() else {
            return Err(self.wrong_type("a short string"));
        };
        let is_text = matches!(type_str.type_char(), TypeChar::ByteStr | TypeChar::UnicodeStr);
        let n_bytes = type_str.num_bytes().filter(|&n_bytes| n_bytes <= MAX_TEXT_BYTES);
        let (true, Some(n_bytes), 1) = (is_text, n_bytes, self.n_values) else {
            return Err(self.wrong_type("a short string"));
        };
        let mut bytes = vec![0; n_bytes];
        let unreadable = |problem| {
            let place = self.place.clone();
            DataError::Unreadable { place, position: 0, problem }
        };
        self.reader
            .read_exact(&mut bytes)
            .and_then(|()| expect_end(self.reader))
            .map_err(unreadable)?;
        // ASCII in either encoding is its letters and zeros between or after them.
        bytes.retain(|&byte| byte != 0);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn integers_as<T>(self, expected: &str) -> Result<Array<T>, DataError>
    where
        T: Copy + Default + TryFrom<i64> + TryFrom<u64>,
    {
        // numpy saves an empty list as floats.
        if self.n_values == 0 {
            return self.convert(expected, |_| None);
        }
        self.expect_kind(&[Kind::Integer], INTEGERS)?;
        let DType::Plain(type_str) = self.header.dtype() else {
            return Err(self.wrong_type(INTEGERS));
        };
        let signed = |value: i64| T::try_from(value).ok();
        let unsigned = |value: u64| T::try_from(value).ok();
        match (type_str.type_char(), type_str.size_field()) {
            (TypeChar::Int, 1) => self.pull(expected, |v: i8| signed(v.into())),
            (TypeChar::Int, 2) => self.pull(expected, |v: i16| signed(v.into())),
            (TypeChar::Int, 4) => self.pull(expected, |v: i32| signed(v.into())),
            (TypeChar::Int, 8) => self.pull(expected, signed),
            (TypeChar::Uint, 1) => self.pull(expected, |v: u8| unsigned(v.into())),
            (TypeChar::Uint, 2) => self.pull(expected, |v: u16| unsigned(v.into())),
            (TypeChar::Uint, 4) => self.pull(expected, |v: u32| unsigned(v.into())),
            (TypeChar::Uint, 8) => self.pull(expected, unsigned),
            _ => Err(self.wrong_type(INTEGERS)),
        }
    }

    fn wrong_type(&self, expected: &'static str) -> DataError {
        let (place, found) = (self.place.clone(), self.header.dtype().descr());
        DataError::WrongType { place, found, expected }
    }

    pub(crate) fn expect_kind(
        &self,
        allowed: &[Kind],
        expected: &'static str,
    ) -> Result<(), DataError> {
        match self.kind() {
            Some(kind) if allowed.contains(&kind) => Ok(()),
            _ => Err(self.wrong_type(expected)),
        }
    }

    pub(crate) fn convert<T: Copy + Default>(
        self,
        expected: &str,
        convert: impl Fn(Number) -> Option<T>,
    ) -> Result<Array<T>, DataError> {
        let DType::Plain(type_str) = self.header.dtype() else {
            return Err(self.wrong_type(NUMBERS));
        };
        let float = |value: f64| convert(Number::Float(value));
        match (type_str.type_char(), type_str.size_field()) {
            (TypeChar::Bool, 1) => self.pull(expected, |v: u8| match v {
                0 | 1 => convert(integer(v)),
                _ => None,
            }),
            (TypeChar::Int, 1) => self.pull(expected, |v: i8| convert(integer(v))),
            (TypeChar::Int, 2) => self.pull(expected, |v: i16| convert(integer(v))),
            (TypeChar::Int, 4) => self.pull(expected, |v: i32| convert(integer(v))),
            (TypeChar::Int, 8) => self.pull(expected, |v: i64| convert(integer(v))),
            (TypeChar::Uint, 1) => self.pull(expected, |v: u8| convert(integer(v))),
            (TypeChar::Uint, 2) => self.pull(expected, |v: u16| convert(integer(v))),
            (TypeChar::Uint, 4) => self.pull(expected, |v: u32| convert(integer(v))),
            (TypeChar::Uint, 8) => self.pull(expected, |v: u64| convert(integer(v))),
            (TypeChar::Float, 2) => self.pull(expected, |v: f16| float(v.to_f64())),
            (TypeChar::Float, 4) => self.pull(expected, |v: f32| float(v.into())),
            (TypeChar::Float, 8) => self.pull(expected, float),
            _ => Err(self.wrong_type(NUMBERS)),
        }
    }

    /// Reads in pieces, each of which is converted at once: the numbers of a piece are looked at one by
    /// one only where one of them is bad.
    fn pull<S: Stored, T: Copy + Default>(
        self,
        expected: &str,
        convert: impl Fn(S) -> Option<T>,
    ) -> Result<Array<T>, DataError> {
        let Self { place, shape, n_values, header, mut reader, .. } = self;
        let is_big = match header.dtype() {
            DType::Plain(type_str) => type_str.endianness() == Endianness::Big,
            _ => false,
        };
        let read = |bytes: &[u8]| S::from_bytes(bytes, is_big);
        let mut values = Vec::with_capacity(n_values.min(MAX_FIRST_VALUES));
        let mut piece = vec![0; PIECE_VALUES.min(n_values.max(1)) * S::N_BYTES];
        while values.len() < n_values {
            let n_bytes = PIECE_VALUES.min(n_values - values.len()) * S::N_BYTES;
            let begin = values.len();
            let outcome = fill(&mut reader, &mut piece[..n_bytes]);
            let n_whole = outcome.as_ref().map_or_else(|(n_read, _)| *n_read, |()| n_bytes);
            let stored = piece[..n_whole - n_whole % S::N_BYTES].chunks_exact(S::N_BYTES);
            let mut is_good = true;
            values.extend(stored.clone().map(|bytes| {
                let value = convert(read(bytes));
                is_good &= value.is_some();
                value.unwrap_or_default()
            }));
            if !is_good {
                let bad = |bytes: &&[u8]| convert(read(bytes)).is_none();
                let position = stored.clone().position(|bytes| bad(&bytes)).unwrap_or(0);
                let value =
                    stored.clone().nth(position).map_or(String::new(), |b| read(b).to_string());
                let (position, expected) = (begin + position, expected.to_owned());
                return Err(DataError::BadValue { place, position, value, expected });
            }
            if let Err((_, problem)) = outcome {
                let position = values.len();
                return Err(DataError::Unreadable { place, position, problem });
            }
        }
        finish(place, shape, values, header.order(), reader)
    }
}

/// Checks that nothing follows the values, and puts them in row-major order.
pub(crate) fn finish<T: Copy>(
    place: Place,
    shape: Vec<usize>,
    values: Vec<T>,
    order: Order,
    reader: impl Read,
) -> Result<Array<T>, DataError> {
    if let Err(problem) = expect_end(reader) {
        return Err(DataError::Unreadable { place, position: values.len(), problem });
    }
    let (Order::Fortran, &[n_rows, n_cols]) = (order, &shape[..]) else {
        return Ok(Array { place, shape, values });
    };
    let values = transpose(n_rows, n_cols, &values);
    Ok(Array { place, shape, values })
}

/// Reads on to the end, where an archive member's checksum is compared.
fn expect_end(mut reader: impl Read) -> io::Result<()> {
    match reader.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::other("more bytes than the header announces")),
    }
}

fn flag(number: Number) -> Option<u8> {
    match number {
        Number::Integer(0) | Number::Float(0.0) => Some(0),
        Number::Integer(1) | Number::Float(1.0) => Some(1),
        _ => None,
    }
}

fn integer(value: impl Into<i128>) -> Number {
    Number::Integer(value.into())
}

/// From columns one after the other to rows one after the other.
fn transpose<T: Copy>(n_rows: usize, n_cols: usize, values: &[T]) -> Vec<T> {
    if values.is_empty() {
        return Vec::new();
    }
    (0..n_rows).flat_map(|row| (0..n_cols).map(move |col| values[col * n_rows + row])).collect()
}
