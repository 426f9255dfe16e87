//! Encoding and selecting, byte for byte as the plain codec.

use sylvie_kernels::{
    ENCODE_1, ENCODE_2, ENCODE_4, ENCODE_8, ENCODE_BF16, ENCODE_F16, ENCODE_F32, Kernel, Reason,
    Refusal, SELECT_ROWS,
};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_lowbit::{EncodeError, MetadataType, Plain, RowCodec, Width};
use sylvie_random::{Coordinates, Family, Pass, Stream};

use crate::ways::{Status, WIDTHS, Way, every_way, numbers, some_rows, u32_of, way, words};

/// Every width with every type of metadata that it has.
pub(crate) fn codecs() -> Vec<RowCodec> {
    let of_width = |width: Width| {
        let types =
            if width.is_quantized() { &MetadataType::ALL[..] } else { &MetadataType::ALL[..1] };
        types.iter().map(move |&metadata| RowCodec { width, metadata })
    };
    Width::ALL.into_iter().flat_map(of_width).collect()
}

pub(crate) fn metadata_number(metadata: MetadataType) -> Argument {
    Argument::U32(match metadata {
        MetadataType::F32 => 0,
        MetadataType::Bf16 => 1,
        MetadataType::F16 => 2,
    })
}

pub(crate) fn family() -> Family {
    Coordinates::new(0x1234_5678_9abc, Stream::Rounding).at(3, 2, Pass::Backward).reader(5).family()
}

fn encoder(width: Width) -> Kernel {
    match width {
        Width::One => ENCODE_1,
        Width::Two => ENCODE_2,
        Width::Four => ENCODE_4,
        Width::Eight => ENCODE_8,
        Width::F16 => ENCODE_F16,
        Width::Bf16 => ENCODE_BF16,
        Width::F32 => ENCODE_F32,
    }
}

/// A matrix, the rows of it to encode (all without a list) and their keys.
pub(crate) struct Rows<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) n_cols: usize,
    pub(crate) list: Option<&'a [u32]>,
    pub(crate) keys: &'a [u32],
}

impl Rows<'_> {
    /// By the kernel, from and to addresses that far behind aligned ones.
    pub(crate) fn encode(
        &self,
        way: Way,
        codec: RowCodec,
        (x_at, at): (usize, usize),
    ) -> Result<Vec<u8>, Refusal> {
        let n_rows = self.keys.len();
        let message = Buffer::new(codec.message_bytes(n_rows, self.n_cols), at);
        let (x, keys) = (Buffer::at_offset(self.x, x_at), Buffer::from_values(self.keys));
        let list = self.list.map(Buffer::from_values);
        let (status, draws) = (Status::new(), family());
        let mut arguments =
            vec![Argument::from(&x), list.as_ref().map_or(Argument::NULL, Argument::from)];
        if codec.width.is_quantized() {
            arguments.push(Argument::from(&keys));
        }
        arguments.extend([
            Argument::from(&message),
            status.argument(),
            u32_of(n_rows),
            u32_of(self.n_cols),
        ]);
        if codec.width.is_quantized() {
            let words = [draws.key[0], draws.key[1], draws.epoch, draws.tag];
            arguments.extend(words.map(Argument::U32));
            arguments.push(metadata_number(codec.metadata));
        }
        way.run(&encoder(codec.width), (n_rows, self.n_cols), &arguments);
        status.refusal().map_or_else(|| Ok(message.values()), Err)
    }

    /// By the specification.
    pub(crate) fn expected(&self, codec: RowCodec) -> Result<Vec<u8>, EncodeError> {
        let mut out = vec![0; codec.message_bytes(self.keys.len(), self.n_cols)];
        let all: Vec<u32> = (0..self.keys.len() as u32).collect();
        let list = self.list.unwrap_or(&all);
        Plain(codec).encode_rows(self.x, self.n_cols, list, self.keys, family(), &mut out)?;
        Ok(out)
    }

    /// Holds the kernel to the specification, in bytes or in what is refused.
    #[track_caller]
    fn check(&self, way: Way, codec: RowCodec, places: (usize, usize)) {
        let found = self.encode(way, codec, places);
        match self.expected(codec) {
            Ok(expected) => {
                let found = found.unwrap_or_else(|e| panic!("{codec:?}: refused: {e:?}"));
                assert!(
                    found == expected,
                    "{codec:?}, {} columns, {way:?}:\n{found:x?}\n{expected:x?}",
                    self.n_cols
                );
            }
            Err(error) => assert_eq!(found.err(), Some(refusal_of(&error)), "{codec:?}"),
        }
    }
}

fn refusal_of(error: &EncodeError) -> Refusal {
    let (reason, column) = match *error {
        EncodeError::NotFinite { column, .. } => (Reason::NotFinite, column),
        EncodeError::MetadataOverflow { .. } => (Reason::Metadata, 0),
        EncodeError::RangeOverflow { .. } => (Reason::Range, 0),
        EncodeError::ValueOverflow { column, .. } => (Reason::ValueOverflow, column),
        _ => panic!("{error}"),
    };
    Refusal { row: error.row() as u32, reason, column: column as u32 }
}

/// Rows of every kind: plain ones, zeros, constants, large offsets, tiny and huge ones, levels, any bits.
fn mixed_rows(seed: u64, n_rows: usize, n_cols: usize) -> Vec<f32> {
    let mut x = numbers(seed, n_rows * n_cols);
    let bits = words(seed + 1, n_rows * n_cols);
    for (row, values) in x.chunks_exact_mut(n_cols).enumerate() {
        let bits = &bits[row * n_cols..];
        for (column, value) in values.iter_mut().enumerate() {
            *value = match row % 11 {
                0 => *value,
                1 => value.max(0.0),
                2 => 0.0,
                3 => -0.1,
                4 => 1000.0 + *value,
                5 => *value * 1e-42,
                6 => *value * 6e4,
                7 => (bits[column] % 16) as f32 - 3.0,
                8 => f32::from_bits(0x4f00_0000 + bits[column] % 64),
                9 => f32::from_bits(bits[column] % 500),
                _ => f32::from_bits(bits[column] & 0xbfff_ffff) / 4.0,
            };
        }
    }
    x
}

#[test]
fn every_codec_writes_the_plain_bytes() {
    let n_rows = 22;
    let mut turn = 0;
    for n_cols in WIDTHS {
        let x = mixed_rows(n_cols as u64, n_rows, n_cols);
        let keys = words(9, n_rows);
        for codec in codecs() {
            // Halves overflow on huge rows; those are for the refusals.
            let small: Vec<f32> = x.iter().map(|v| v.clamp(-6e4, 6e4)).collect();
            let x = if codec.metadata == MetadataType::F16 || codec.width == Width::F16 {
                &small
            } else {
                &x
            };
            let rows = Rows { x, n_cols, list: None, keys: &keys };
            turn += 1;
            rows.check(way(turn), codec, (0, 0));
        }
    }
}

#[test]
fn gathered_rows_at_any_address() {
    let (n_matrix_rows, n_rows) = (30, 19);
    let mut turn = 0;
    for n_cols in [16, 33, 64] {
        let x = numbers(3, n_matrix_rows * n_cols);
        let (list, keys) = (some_rows(4, n_rows, n_matrix_rows), words(5, n_rows));
        let rows = Rows { x: &x, n_cols, list: Some(&list), keys: &keys };
        for codec in codecs() {
            for places in [(0, 0), (4, 0), (8, 1), (16, 2), (0, 4), (12, 7), (0, 8)] {
                turn += 1;
                rows.check(way(turn), codec, places);
            }
        }
    }
}

#[test]
fn rows_longer_than_what_registers_hold() {
    let (n_rows, n_cols) = (3, 1100);
    let x = mixed_rows(1, n_rows, n_cols);
    let keys = [7, 8, 9];
    for width in [Width::One, Width::Two, Width::Four, Width::Eight] {
        Rows { x: &x, n_cols, list: None, keys: &keys }.check(way(2), RowCodec::new(width), (0, 3));
    }
}

#[test]
fn what_is_decided_last_is_decided_alike() {
    // Values a hair from where rounding turns: the single-precision decision must leave them to the exact one.
    let n_cols = 256;
    for (turn, width) in [Width::One, Width::Two, Width::Eight].into_iter().enumerate() {
        let codec = RowCodec { width, metadata: MetadataType::F32 };
        let mut x = numbers(11, n_cols);
        (x[0], x[1]) = (0.0, 1.0);
        let levels = width.max_code().unwrap() as f32;
        for (column, value) in x.iter_mut().enumerate().skip(2) {
            let block = family().short_block(42, (column / 16) as u32);
            let byte = block[column % 16 / 4] >> (column % 4 * 8) & 0xff;
            let nudge = [0.0, 1e-7, -1e-7, 2e-6, -2e-6, 2e-4, -2e-4][column % 7];
            *value = ((256.0 - byte as f32) / 256.0 + nudge).clamp(0.0, 1.0) / levels;
        }
        Rows { x: &x, n_cols, list: None, keys: &[42] }.check(way(turn), codec, (0, 0));
    }
}

#[test]
fn the_first_row_that_cannot_be_encoded_is_named() {
    let (n_rows, n_cols) = (12, 37);
    let plain = numbers(2, n_rows * n_cols);
    let keys = words(5, n_rows);
    let faults: [(usize, f32, Option<f32>); 6] = [
        (5, f32::NAN, None),
        (0, f32::INFINITY, None),
        (36, f32::NEG_INFINITY, None),
        (20, 7e4, None),
        (8, f32::MAX, Some(f32::MIN)),
        (9, -3.4e38, None),
    ];
    for codec in codecs() {
        for (turn, &(column, value, beside)) in faults.iter().enumerate() {
            let mut x = plain.clone();
            for row in [7, 4, 9] {
                x[row * n_cols + column] = value;
                if let Some(beside) = beside {
                    x[row * n_cols + column + 3] = beside;
                }
            }
            Rows { x: &x, n_cols, list: None, keys: &keys }.check(way(turn), codec, (0, 0));
        }
    }
}

#[test]
fn selected_rows_are_those_of_the_message() {
    let n_rows = 25;
    for (turn, n_cols) in [1, 8, 40, 64, 128, 515].into_iter().enumerate() {
        let x = numbers(6, n_rows * n_cols);
        let keys = words(7, n_rows);
        let positions = some_rows(8, 13, n_rows);
        for codec in codecs() {
            let bytes = Rows { x: &x, n_cols, list: None, keys: &keys }.expected(codec).unwrap();
            let mut expected = vec![0; codec.message_bytes(positions.len(), n_cols)];
            codec.select_rows(&bytes, n_rows, n_cols, &positions, &mut expected).unwrap();
            for (from, to) in [(0, 0), (4, 8), (1, 2)] {
                let message = Buffer::at_offset(&bytes, from);
                let out = Buffer::new(expected.len(), to);
                let list = Buffer::from_values(&positions);
                let row_bytes = codec.row_payload_bytes(n_cols);
                let arguments = [
                    Argument::from(&message),
                    Argument::from(&list),
                    Argument::from(&out),
                    u32_of(n_rows),
                    u32_of(positions.len()),
                    u32_of(codec.row_metadata_bytes()),
                    Argument::U64(row_bytes as u64),
                ];
                let shape = (positions.len(), row_bytes.div_ceil(4).max(1));
                way(turn).run(&SELECT_ROWS, shape, &arguments);
                assert_eq!(out.values::<u8>(), expected, "{codec:?}");
            }
        }
    }
}

#[test]
fn every_order_of_lanes_gives_the_same_bytes() {
    let (n_rows, n_cols) = (9, 45);
    let (x, keys) = (mixed_rows(1, n_rows, n_cols), words(2, n_rows));
    let codec = RowCodec::new(Width::One);
    every_way(|way| Rows { x: &x, n_cols, list: None, keys: &keys }.check(way, codec, (0, 0)));
}
