//! Arrays in a safetensors file, written and read as a stream under a checksum.
//!
//! The header is the library's; the bytes after it pass through one small buffer, so that neither side
//! ever holds a file besides the arrays in it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use sha2::{Digest as _, Sha256};

use super::error::{ArrayFault, FolderError, FolderFault, io_at};
use super::manifest::hexadecimal;

/// The only key of the metadata.
const KEY: &str = "sylvie";
/// Bytes of the number that a file begins with.
const N_LENGTH_BYTES: u64 = 8;
/// Longest header of a safetensors file, as the library has it.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// What is read or written at once.
const N_BUFFER_BYTES: usize = 1 << 20;
/// Values that are converted at once.
const N_CHUNK: usize = 8192;

/// Values of an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    U64(Vec<u64>),
    U32(Vec<u32>),
    F32(Vec<f32>),
    U8(Vec<u8>),
}

/// Values of an array that lies elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValuesRef<'a> {
    U64(&'a [u64]),
    U32(&'a [u32]),
    F32(&'a [f32]),
    U8(&'a [u8]),
}

impl ValuesRef<'_> {
    fn dtype(self) -> Dtype {
        match self {
            Self::U64(_) => Dtype::U64,
            Self::U32(_) => Dtype::U32,
            Self::F32(_) => Dtype::F32,
            Self::U8(_) => Dtype::U8,
        }
    }

    fn n_bytes(self) -> usize {
        match self {
            Self::U64(values) => size_of_val(values),
            Self::U32(values) => size_of_val(values),
            Self::F32(values) => size_of_val(values),
            Self::U8(values) => values.len(),
        }
    }

    fn write(self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::U64(values) => write_words(values, out, u64::to_le_bytes),
            Self::U32(values) => write_words(values, out, u32::to_le_bytes),
            Self::F32(values) => write_words(values, out, f32::to_le_bytes),
            Self::U8(values) => out.write_all(values),
        }
    }
}

fn write_words<T: Copy, const N: usize>(
    values: &[T],
    out: &mut impl Write,
    to_bytes: fn(T) -> [u8; N],
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(N_CHUNK * N);
    for chunk in values.chunks(N_CHUNK) {
        bytes.clear();
        chunk.iter().for_each(|&value| bytes.extend_from_slice(&to_bytes(value)));
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// An array to write.
#[derive(Debug)]
pub(super) struct NamedArray<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) values: ValuesRef<'a>,
}

/// Length and SHA-256 of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) n_bytes: u64,
    pub(super) sha256: String,
}

/// Writes a new file of arrays, wide types first, and brings it to the disk. The same arrays give the
/// same bytes.
///
/// # Errors
/// What the system says.
pub(super) fn write(
    path: &Path,
    about: &str,
    mut arrays: Vec<NamedArray<'_>>,
) -> Result<Sum, FolderError> {
    arrays.sort_by(|a, b| b.values.dtype().cmp(&a.values.dtype()).then(a.name.cmp(&b.name)));
    let header =
        header(about, &arrays).map_err(|problem| FolderFault::Header { problem }.at(path))?;
    let write = || -> io::Result<Sum> {
        let file = BufWriter::with_capacity(N_BUFFER_BYTES, File::create_new(path)?);
        let mut out = Summing { inner: file, hash: Sha256::new(), n_bytes: 0 };
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for array in &arrays {
            array.values.write(&mut out)?;
        }
        out.inner.flush()?;
        out.inner.get_ref().sync_all()?;
        Ok(Sum { n_bytes: out.n_bytes, sha256: hexadecimal(&out.hash.finalize()) })
    };
    write().map_err(io_at(path))
}

fn header(about: &str, arrays: &[NamedArray<'_>]) -> Result<Vec<u8>, String> {
    let mut infos = Vec::with_capacity(arrays.len());
    let mut begin = 0;
    for NamedArray { name, shape, values } in arrays {
        let end = begin + values.n_bytes();
        let (dtype, shape) = (values.dtype(), shape.clone());
        infos.push((name.clone(), TensorInfo { dtype, shape, data_offsets: (begin, end) }));
        begin = end;
    }
    let about = HashMap::from([(KEY.to_owned(), about.to_owned())]);
    let metadata = Metadata::new(Some(about), infos).map_err(|error| error.to_string())?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

/// Passes bytes on, and counts and sums them.
struct Summing<S> {
    inner: S,
    hash: Sha256,
    n_bytes: u64,
}

impl<S: Write> Write for Summing<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_bytes = self.inner.write(bytes)?;
        self.hash.update(&bytes[..n_bytes]);
        self.n_bytes += n_bytes as u64;
        Ok(n_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<S: Read> Read for Summing<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.inner.read(bytes)?;
        self.hash.update(&bytes[..n_bytes]);
        self.n_bytes += n_bytes as u64;
        Ok(n_bytes)
    }
}

/// A file of arrays whose header has been read.
pub(super) struct ArrayFile {
    source: Summing<BufReader<File>>,
    metadata: Metadata,
    n_file_bytes: u64,
}

impl ArrayFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// No regular file, or none that begins as safetensors do.
    pub(super) fn open(path: &Path) -> Result<Self, FolderFault> {
        // Others are not opened: a pipe would be waited for, a device read without end.
        let n_file_bytes = match fs::metadata(path)? {
            found if found.is_file() => found.len(),
            _ => return Err(FolderFault::NotAFile),
        };
        let file = BufReader::with_capacity(N_BUFFER_BYTES, File::open(path)?);
        let mut source = Summing { inner: file, hash: Sha256::new(), n_bytes: 0 };
        let short = || FolderFault::Header { problem: "it ends within its header".to_owned() };
        let mut length = [0; N_LENGTH_BYTES as usize];
        source.read_exact(&mut length).map_err(|error| or_short(error, short))?;
        let n_header_bytes = u64::from_le_bytes(length);
        if n_header_bytes > (n_file_bytes.saturating_sub(N_LENGTH_BYTES)).min(MAX_HEADER_BYTES) {
            return Err(short());
        }
        let mut header = vec![0; n_header_bytes as usize];
        source.read_exact(&mut header).map_err(|error| or_short(error, short))?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| FolderFault::Header { problem: error.to_string() })?;
        Ok(Self { source, metadata, n_file_bytes })
    }

    /// What the metadata say of the file.
    pub(super) fn about(&self) -> Option<&str> {
        self.metadata.metadata().as_ref().and_then(|map| map.get(KEY)).map(String::as_str)
    }

    /// Length of the file.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_file_bytes
    }

    /// Reads all arrays, and sums the whole file.
    ///
    /// # Cost
    /// Memory: the arrays, and a buffer. None is asked for beyond the file's length.
    /// # Errors
    /// Arrays that do not fill the file, a type that the format does not use, what the system says.
    pub(super) fn read(mut self) -> Result<(Arrays, String), FolderFault> {
        let implied = self.source.n_bytes.saturating_add(self.metadata.data_len() as u64);
        if implied != self.n_file_bytes {
            return Err(FolderFault::Length { expected: implied, found: self.n_file_bytes });
        }
        let mut arrays = BTreeMap::new();
        for name in self.metadata.offset_keys() {
            let Some(info) = self.metadata.info(&name) else { continue };
            let (begin, end) = info.data_offsets;
            let n_bytes = end - begin;
            let source = &mut self.source;
            let values = match info.dtype {
                Dtype::U64 => read_words(source, n_bytes, u64::from_le_bytes).map(Values::U64),
                Dtype::U32 => read_words(source, n_bytes, u32::from_le_bytes).map(Values::U32),
                Dtype::F32 => read_words(source, n_bytes, f32::from_le_bytes).map(Values::F32),
                Dtype::U8 => read_words(source, n_bytes, |[byte]: [u8; 1]| byte).map(Values::U8),
                other => {
                    let (expected, found) = ("U64, U32, F32 or U8", format!("{other:?}"));
                    return Err(FolderFault::array(name, ArrayFault::Type { expected, found }));
                }
            };
            let values = values.map_err(|error| match error.kind() {
                io::ErrorKind::OutOfMemory => {
                    FolderFault::Memory { name: name.clone(), bytes: n_bytes }
                }
                _ => error.into(),
            })?;
            arrays.insert(name, (info.shape.clone(), values));
        }
        Ok((Arrays { arrays }, hexadecimal(&self.source.hash.finalize())))
    }
}

/// A file that ended early, or what the system says.
fn or_short(error: io::Error, short: impl FnOnce() -> FolderFault) -> FolderFault {
    if error.kind() == io::ErrorKind::UnexpectedEof { short() } else { error.into() }
}

fn read_words<T, const N: usize>(
    source: &mut impl Read,
    n_bytes: usize,
    from_bytes: fn([u8; N]) -> T,
) -> io::Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(n_bytes / N).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = vec![0; n_bytes.min(N_CHUNK * N)];
    let mut n_left = n_bytes;
    while n_left > 0 {
        let n_now = n_left.min(bytes.len());
        source.read_exact(&mut bytes[..n_now])?;
        let (words, _) = bytes[..n_now].as_chunks::<N>();
        values.extend(words.iter().map(|&word| from_bytes(word)));
        n_left -= n_now;
    }
    Ok(values)
}

/// The arrays of a file, taken out one by one.
#[derive(Debug)]
pub(super) struct Arrays {
    arrays: BTreeMap<String, (Vec<usize>, Values)>,
}

/// Takes an array of one type.
macro_rules! take {
    ($method:ident, $variant:ident, $value:ty) => {
        /// Takes an array of this type; of `shape`, or of one dimension where there is none.
        ///
        /// # Errors
        /// It is not there, or of another type or shape.
        pub(super) fn $method(
            &mut self,
            name: &str,
            shape: Option<&[usize]>,
        ) -> Result<Vec<$value>, FolderFault> {
            let fault = |problem| Err(FolderFault::array(name, problem));
            let Some((found, values)) = self.arrays.remove(name) else {
                return fault(ArrayFault::Missing);
            };
            let Values::$variant(values) = values else {
                let (expected, found) = (stringify!($variant), values.name().to_owned());
                return fault(ArrayFault::Type { expected, found });
            };
            let line = [values.len()];
            let expected = shape.unwrap_or(&line);
            if found != expected {
                return fault(ArrayFault::Shape { expected: expected.to_vec(), found });
            }
            Ok(values)
        }
    };
}

impl Arrays {
    take!(u64s, U64, u64);
    take!(u32s, U32, u32);
    take!(f32s, F32, f32);
    take!(u8s, U8, u8);

    /// Checks that every array has been taken.
    ///
    /// # Errors
    /// The first that has not.
    pub(super) fn finish(self) -> Result<(), FolderFault> {
        match self.arrays.into_keys().next() {
            Some(name) => Err(FolderFault::array(name, ArrayFault::Unknown)),
            None => Ok(()),
        }
    }
}

impl Values {
    fn name(&self) -> &'static str {
        match self {
            Self::U64(_) => "U64",
            Self::U32(_) => "U32",
            Self::F32(_) => "F32",
            Self::U8(_) => "U8",
        }
    }
}
