//! Rows as host bytes, large messages on several threads.
//!
//! A row's bytes have their place in a message whatever the others are, so that rows can be cut into
//! ranges. Each range is a message of its own to the codec; where rows have metadata, which lie together
//! ahead of all payloads, a range's two pieces are copied from or to it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use sylvie_lowbit::{DecodeError, EncodeError, RowCodec, Width};
use sylvie_random::Family;

use super::scatter::ascending_ranges;
use super::{CpuBackend, CpuMatrix, CpuPacked};
use crate::wire::Wire;

/// Values that a thread encodes or decodes at once.
const RANGE_VALUES: usize = 1 << 16;
/// Bytes that a thread selects at once.
const RANGE_BYTES: usize = 1 << 18;
/// Ranges are multiples of so many rows, which codecs like to take together.
const ROW_BATCH: usize = 8;

/// Rows of a range, each of `row_len` values or bytes.
fn rows_of_range(row_len: usize, range_len: usize) -> usize {
    (range_len / row_len.max(1)).next_multiple_of(ROW_BATCH).max(ROW_BATCH)
}

/// Rows of a message that is being written, and where its bytes go.
struct RangeOut<'a> {
    rows: Range<usize>,
    metadata: &'a mut [u8],
    payload: &'a mut [u8],
}

impl<'a> RangeOut<'a> {
    /// Cuts a message of `n_rows` rows into ranges of `step` rows.
    fn cut(
        codec: RowCodec,
        (n_rows, n_cols): (usize, usize),
        step: usize,
        out: &'a mut [u8],
    ) -> Vec<Self> {
        let (mut metadata, mut payload) = out.split_at_mut(codec.metadata_bytes(n_rows));
        let mut ranges = Vec::with_capacity(n_rows.div_ceil(step));
        for first in (0..n_rows).step_by(step) {
            let rows = first..(first + step).min(n_rows);
            let (head, rest) = metadata.split_at_mut(codec.metadata_bytes(rows.len()));
            let (body, after) = payload.split_at_mut(codec.payload_bytes(rows.len(), n_cols));
            ranges.push(RangeOut { rows, metadata: head, payload: body });
            (metadata, payload) = (rest, after);
        }
        ranges
    }

    /// Lets `write` write the range as a message of its own.
    fn fill<E>(self, write: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if self.metadata.is_empty() {
            return write(self.payload);
        }
        let mut message = vec![0; self.metadata.len() + self.payload.len()];
        write(&mut message)?;
        let (metadata, payload) = message.split_at(self.metadata.len());
        self.metadata.copy_from_slice(metadata);
        self.payload.copy_from_slice(payload);
        Ok(())
    }
}

/// Some rows of a message as a message of their own.
fn range_of<'m>(
    codec: RowCodec,
    message: &'m [u8],
    (n_rows, n_cols): (usize, usize),
    rows: Range<usize>,
) -> Cow<'m, [u8]> {
    let (metadata, payload) = message.split_at(codec.metadata_bytes(n_rows));
    let bytes = |row| codec.payload_bytes(row, n_cols);
    let payload = &payload[bytes(rows.start)..bytes(rows.end)];
    if metadata.is_empty() {
        return Cow::Borrowed(payload);
    }
    let metadata = &metadata[codec.metadata_bytes(rows.start)..codec.metadata_bytes(rows.end)];
    Cow::Owned([metadata, payload].concat())
}

impl CpuBackend {
    /// Whether `n_rows` rows are worth cutting into ranges of `step`.
    fn cuts(&self, n_rows: usize, n_cols: usize, step: usize) -> bool {
        self.threads.are_several() && n_cols > 0 && n_rows > step
    }

    /// Does `work` on each item, on all threads; whether all of it went well.
    fn all_ok<T: Send, E>(&self, items: Vec<T>, work: impl Fn(T) -> Result<(), E> + Sync) -> bool {
        let has_failed = AtomicBool::new(false);
        self.threads.each(items, |_, item| {
            if work(item).is_err() {
                has_failed.store(true, Ordering::Relaxed);
            }
        });
        !has_failed.into_inner()
    }

    /// Encodes `keys.len()` rows: `encode(rows, out)` encodes some of them as a message of their own.
    fn encode(
        &self,
        codec: RowCodec,
        (n_rows, n_cols): (usize, usize),
        mut out: Vec<u8>,
        encode: impl Fn(Range<usize>, &mut [u8]) -> Result<(), EncodeError> + Sync,
    ) -> Result<Vec<u8>, EncodeError> {
        out.resize(codec.message_bytes(n_rows, n_cols), 0);
        let step = rows_of_range(n_cols, RANGE_VALUES);
        if self.cuts(n_rows, n_cols, step) {
            let ranges = RangeOut::cut(codec, (n_rows, n_cols), step, &mut out);
            let is_done = self.all_ok(ranges, |range| {
                let rows = range.rows.clone();
                range.fill(|out| encode(rows, out))
            });
            if is_done {
                return Ok(out);
            }
            // All rows at once know which of them is the first that cannot be encoded.
        }
        encode(0..n_rows, &mut out)?;
        Ok(out)
    }
}

impl Wire for CpuBackend {
    type Bytes = Vec<u8>;

    fn bytes_from_host(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn bytes_to_host(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn encode_rows(
        &self,
        codec: RowCodec,
        x: &CpuMatrix,
        rows: &Vec<u32>,
        keys: &Vec<u32>,
        draws: Family,
        out: Vec<u8>,
    ) -> Result<Vec<u8>, EncodeError> {
        assert_eq!(rows.len(), keys.len(), "rows to encode and their keys");
        let n_cols = x.n_cols();
        self.encode(codec, (rows.len(), n_cols), out, |range, out| {
            let (rows, keys) = (&rows[range.clone()], &keys[range]);
            codec.encode_rows(x.values(), n_cols, rows, keys, draws, out)
        })
    }

    fn encode_all_rows(
        &self,
        codec: RowCodec,
        x: &CpuMatrix,
        keys: &Vec<u32>,
        draws: Family,
        out: Vec<u8>,
    ) -> Result<Vec<u8>, EncodeError> {
        assert_eq!(x.n_rows(), keys.len(), "rows to encode and their keys");
        let n_cols = x.n_cols();
        self.encode(codec, (x.n_rows(), n_cols), out, |range, out| {
            let values = &x.values()[range.start * n_cols..range.end * n_cols];
            codec.encode_all(values, n_cols, &keys[range], draws, out)
        })
    }

    fn select_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        (n_rows, n_cols): (usize, usize),
        positions: &Vec<u32>,
        mut out: Vec<u8>,
    ) -> Result<Vec<u8>, DecodeError> {
        out.resize(codec.message_bytes(positions.len(), n_cols), 0);
        let step = rows_of_range(codec.message_bytes(1, n_cols), RANGE_BYTES);
        if self.cuts(positions.len(), n_cols, step) {
            let ranges = RangeOut::cut(codec, (positions.len(), n_cols), step, &mut out);
            let is_done = self.all_ok(ranges, |range| {
                let positions = &positions[range.rows.clone()];
                range.fill(|out| codec.select_rows(message, n_rows, n_cols, positions, out))
            });
            if is_done {
                return Ok(out);
            }
        }
        codec.select_rows(message, n_rows, n_cols, positions, &mut out)?;
        Ok(out)
    }

    fn decode_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        out: &mut CpuMatrix,
    ) -> Result<(), DecodeError> {
        let (n_rows, n_cols) = out.shape();
        let step = rows_of_range(n_cols, RANGE_VALUES);
        let is_whole = message.len() == codec.message_bytes(n_rows, n_cols);
        if is_whole && self.cuts(n_rows, n_cols, step) {
            let ranges = out.values_mut().chunks_mut(step * n_cols).enumerate().collect();
            let is_done = self.all_ok(ranges, |(index, out)| {
                let rows = index * step..index * step + out.len() / n_cols;
                let message = range_of(codec, message, (n_rows, n_cols), rows);
                codec.decode_rows(&message, n_cols, out)
            });
            if is_done {
                return Ok(());
            }
            // All rows at once know which of them is the first that cannot be decoded.
        }
        codec.decode_rows(message, n_cols, out.values_mut())
    }

    fn encodes_for_each_reader(&self) -> bool {
        true
    }

    fn packs_well(&self, width: Width, n_cols: usize) -> bool {
        CpuPacked::pays(width, n_cols)
    }

    fn packed_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        shape: (usize, usize),
    ) -> Result<CpuPacked, DecodeError> {
        CpuPacked::of_message(self, codec, message, shape)
    }

    fn decode_add_rows(
        &self,
        codec: RowCodec,
        message: &Vec<u8>,
        rows: &Vec<u32>,
        out: &mut CpuMatrix,
    ) -> Result<(), DecodeError> {
        let ((n_out_rows, n_cols), n_rows) = (out.shape(), rows.len());
        let step = rows_of_range(n_cols, RANGE_VALUES);
        let is_whole = message.len() == codec.message_bytes(n_rows, n_cols);
        let ranges = if is_whole && self.cuts(n_rows, n_cols, step) {
            ascending_ranges(rows, step, (n_out_rows, n_cols), out.values_mut())
        } else {
            None
        };
        let Some(ranges) = ranges else {
            return codec.decode_add_rows(message, n_cols, rows, out.values_mut());
        };
        let is_done = self.all_ok(ranges, |range| {
            let places = range.first..range.first + range.rows.len();
            let message = range_of(codec, message, (n_rows, n_cols), places);
            let first_row = range.first_row as u32;
            let rows: Vec<u32> = range.rows.iter().map(|&row| row - first_row).collect();
            codec.decode_add_rows(&message, n_cols, &rows, range.out)
        });
        if is_done {
            return Ok(());
        }
        // What was added stays; the first row that cannot be decoded is found without adding again.
        let mut decoded = CpuMatrix::to_assign(&self.pool, n_rows, n_cols);
        codec.decode_rows(message, n_cols, decoded.values_mut())
    }
}
