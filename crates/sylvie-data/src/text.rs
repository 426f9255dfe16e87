//! Numbers as lines of text, plain or gzipped, read in pieces that do not grow with the file.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr, memrchr};

use crate::error::{DataError, Place, escaped};
use crate::file;

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 18;
/// Longest line taken: a row of a few million features.
const MAX_LINE_BYTES: usize = 1 << 25;
/// Bytes that any gzipped file may expand to.
const FREE_BYTES: u64 = 1 << 26;
/// Beyond them, how many times its size a gzipped file may expand. Deflate's own limit is 1032, which
/// only repetition reaches.
const MAX_EXPANSION: u64 = 256;
/// Bytes of a field that a message shows.
const MAX_SHOWN_BYTES: usize = 40;

/// Counts the bytes that a decoder has taken.
struct Counted<R> {
    inner: R,
    n_bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.inner.read(buffer)?;
        self.n_bytes.fetch_add(n_bytes as u64, Ordering::Relaxed);
        Ok(n_bytes)
    }
}

/// Where the bytes of a text come from.
enum Source {
    Plain(File),
    Gzip { decoder: Box<MultiGzDecoder<BufReader<Counted<File>>>>, n_taken: Arc<AtomicU64> },
}

/// A text file that is read line by line.
pub(crate) struct Text {
    path: PathBuf,
    source: Source,
    n_expanded: u64,
}

/// Where a line stands, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    path: &'a Path,
    /// Counted from 1.
    pub(crate) number: u64,
    pub(crate) bytes: &'a [u8],
}

impl Line<'_> {
    /// A field that cannot be used.
    pub(crate) fn bad(&self, field: &[u8], expected: impl Into<String>) -> DataError {
        let shown = &field[..field.len().min(MAX_SHOWN_BYTES)];
        let mut found = escaped(&String::from_utf8_lossy(shown));
        if shown.len() < field.len() {
            found.push_str("...");
        }
        let place = Place::file(self.path);
        DataError::BadText { place, line: self.number, found, expected: expected.into() }
    }

    /// The whole line cannot be used.
    pub(crate) fn bad_line(&self, expected: impl Into<String>) -> DataError {
        self.bad(self.bytes, expected)
    }

    /// The fields: between commas where there are any, else between blanks.
    pub(crate) fn fields(&self) -> Fields<'_> {
        match memchr(b',', self.bytes) {
            Some(_) => Fields::Commas { rest: Some(self.bytes) },
            None => Fields::Blanks { rest: self.bytes },
        }
    }
}

/// Fields of a line, trimmed.
pub(crate) enum Fields<'a> {
    Commas { rest: Option<&'a [u8]> },
    Blanks { rest: &'a [u8] },
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Self::Commas { rest } => {
                let line = (*rest)?;
                let end = line.iter().position(|&byte| byte == b',');
                *rest = end.map(|end| &line[end + 1..]);
                Some(line[..end.unwrap_or(line.len())].trim_ascii())
            }
            Self::Blanks { rest } => {
                let line = rest.trim_ascii_start();
                if line.is_empty() {
                    return None;
                }
                let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
                *rest = &line[end..];
                Some(&line[..end])
            }
        }
    }
}

/// Whole lines, the first of which has the number `number`.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    path: &'a Path,
    pub(crate) number: u64,
    pub(crate) rest: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Takes the next line, blank or not, without its end.
    pub(crate) fn next_line(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (bytes, rest) = match memchr(b'\n', self.rest) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        let line = Line { path: self.path, number: self.number, bytes: bytes.trim_ascii() };
        self.rest = rest;
        self.number += 1;
        Some(line)
    }

    /// The next line if it is two numbers of at most nine digits with a comma or blank between them, and
    /// nothing else; and the lines after it.
    pub(crate) fn plain_pair(&self) -> Option<((u32, u32), Self)> {
        let (first, rest) = digits(self.rest)?;
        let [b',' | b' ' | b'\t', rest @ ..] = rest else { return None };
        let (second, rest) = digits(rest)?;
        let ([b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..]) = rest else { return None };
        Some(((first, second), Self { path: self.path, number: self.number + 1, rest }))
    }
}

/// A number of at most nine digits, which 32 bits hold, and what follows it.
#[inline]
fn digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (mut number, mut n_digits) = (0_u32, 0);
    while let Some(digit) = bytes.get(n_digits).map(|byte| byte.wrapping_sub(b'0'))
        && digit <= 9
    {
        // More than nine digits may wrap around; they are refused below.
        number = number.wrapping_mul(10).wrapping_add(u32::from(digit));
        n_digits += 1;
    }
    (1..=9).contains(&n_digits).then(|| (number, &bytes[n_digits..]))
}

impl Text {
    /// Opens a file; gzip is told by the name or by the first bytes.
    ///
    /// # Errors
    /// Nothing there, something other than a file, or what the system says.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let mut first = Vec::with_capacity(2);
        file::open(path)?.take(2).read_to_end(&mut first).map_err(DataError::open(path))?;
        let file = file::open(path)?;
        let is_named = path.extension().is_some_and(|extension| extension == "gz");
        let source = if is_named || first == [0x1f, 0x8b] {
            let n_taken = Arc::new(AtomicU64::new(0));
            let counted = Counted { inner: file, n_bytes: Arc::clone(&n_taken) };
            let buffered = BufReader::with_capacity(1 << 16, counted);
            Source::Gzip { decoder: Box::new(MultiGzDecoder::new(buffered)), n_taken }
        } else {
            Source::Plain(file)
        };
        Ok(Self { path: path.to_owned(), source, n_expanded: 0 })
    }

    /// The file.
    pub(crate) fn place(&self) -> Place {
        Place::file(&self.path)
    }

    /// Hands every line to `take` that is not blank, without its end.
    ///
    /// # Errors
    /// What `take` says; a line without end; what the system or the decoder says.
    pub(crate) fn for_each(
        self,
        mut take: impl FnMut(Line<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.every(|line| if line.bytes.is_empty() { Ok(()) } else { take(line) })
    }

    /// The same with blank lines.
    ///
    /// # Errors
    /// As [`Text::for_each`].
    pub(crate) fn every(
        self,
        mut take: impl FnMut(Line<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.until(|line| take(line).map(ControlFlow::Continue)).map(|_: Option<()>| ())
    }

    /// Hands lines, blank ones too, to `take` until it breaks off; gives back what it broke off with.
    ///
    /// # Errors
    /// As [`Text::for_each`].
    pub(crate) fn until<B>(
        self,
        mut take: impl FnMut(Line<'_>) -> Result<ControlFlow<B>, DataError>,
    ) -> Result<Option<B>, DataError> {
        let mut value = None;
        self.pieces(|mut piece| {
            while let Some(line) = piece.next_line() {
                if let ControlFlow::Break(found) = take(line)? {
                    value = Some(found);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(piece.number))
        })?;
        Ok(value)
    }

    /// Hands whole lines to `take`, as many as are read at once, until it breaks off. It says which number
    /// the line after those has.
    ///
    /// # Errors
    /// As [`Text::for_each`].
    pub(crate) fn pieces(
        mut self,
        mut take: impl FnMut(Piece<'_>) -> Result<ControlFlow<(), u64>, DataError>,
    ) -> Result<(), DataError> {
        let path = self.path.clone();
        let mut buffer = vec![0; PIECE_BYTES];
        let (mut n_held, mut number) = (0, 1);
        loop {
            let n_read = self.read(&mut buffer[n_held..])?;
            let n_filled = n_held + n_read;
            let is_end = n_read == 0;
            // What was held back has no end of line in it, so only what is new is searched.
            let complete = match memrchr(b'\n', &buffer[n_held..n_filled]) {
                Some(at) => n_held + at + 1,
                None if is_end => n_filled,
                None => 0,
            };
            match take(Piece { path: &path, number, rest: &buffer[..complete] })? {
                ControlFlow::Continue(next) => number = next,
                ControlFlow::Break(()) => return Ok(()),
            }
            if is_end {
                return Ok(());
            }
            buffer.copy_within(complete..n_filled, 0);
            n_held = n_filled - complete;
            if n_held == buffer.len() {
                let line = Line { path: &path, number, bytes: &buffer };
                if n_held >= MAX_LINE_BYTES {
                    return Err(
                        line.bad_line(format!("a line of less than {MAX_LINE_BYTES} bytes"))
                    );
                }
                buffer.resize(2 * n_held, 0);
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        let io = |path: &Path| {
            let place = Place::file(path);
            move |problem| DataError::Io { place, problem }
        };
        let (decoder, n_taken) = match &mut self.source {
            Source::Plain(file) => return read_some(file, buffer).map_err(io(&self.path)),
            Source::Gzip { decoder, n_taken } => (decoder, n_taken),
        };
        let n_read = read_some(decoder, buffer).map_err(io(&self.path))?;
        self.n_expanded += n_read as u64;
        let (stored, expanded) = (n_taken.load(Ordering::Relaxed), self.n_expanded);
        if expanded > FREE_BYTES && expanded / MAX_EXPANSION > stored {
            let limit = MAX_EXPANSION;
            return Err(DataError::Bomb { place: self.place(), stored, expanded, limit });
        }
        Ok(n_read)
    }
}

/// Reads until the buffer is full or nothing is left.
fn read_some(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n_filled = 0;
    while n_filled < buffer.len() {
        match reader.read(&mut buffer[n_filled..]) {
            Ok(0) => break,
            Ok(n_bytes) => n_filled += n_bytes,
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(n_filled)
}

/// A number of digits alone that 64 bits hold.
pub(crate) fn unsigned(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A node number: digits that 32 bits hold.
pub(crate) fn node(field: &[u8]) -> Option<u32> {
    // Nine digits always fit, and are added up without a check for each.
    if field.len() > 9 || field.is_empty() {
        return unsigned(field).and_then(|number| u32::try_from(number).ok());
    }
    let mut number = 0_u32;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    Some(number)
}

/// A finite number.
pub(crate) fn float(field: &[u8]) -> Option<f32> {
    if let [digit @ b'0'..=b'9'] = field {
        return Some(f32::from(digit - b'0'));
    }
    let text = std::str::from_utf8(field).ok()?;
    text.parse().ok().filter(|number: &f32| number.is_finite())
}

/// Whether a line names columns: words, no number in it.
pub(crate) fn is_header(line: &Line<'_>) -> bool {
    let is_word = |field: &[u8]| {
        let field = field.strip_prefix(b"\"").unwrap_or(field);
        field.first().is_some_and(u8::is_ascii_alphabetic) && !is_missing(field)
    };
    !line.bytes.is_empty() && line.fields().all(is_word)
}

/// Whether a field says that there is no label.
pub(crate) fn is_missing(field: &[u8]) -> bool {
    field.is_empty() || field == b"\"\"" || field.eq_ignore_ascii_case(b"nan")
}
