//! Decoding, bit for bit as the plain codec, of honest and of hostile messages.

use sylvie_kernels::{
    DECODE_1, DECODE_2, DECODE_4, DECODE_8, DECODE_ADD_1, DECODE_ADD_2, DECODE_ADD_4, DECODE_ADD_8,
    DECODE_ADD_BF16, DECODE_ADD_F16, DECODE_ADD_F32, DECODE_BF16, DECODE_F16, DECODE_F32, Kernel,
    Reason, Refusal,
};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_lowbit::{DecodeError, Plain, RowCodec, Width};

use crate::codec::{Rows, codecs, metadata_number};
use crate::ways::{Status, WIDTHS, Way, assert_same_bits, numbers, some_rows, u32_of, way, words};

fn decoder(width: Width) -> Kernel {
    match width {
        Width::One => DECODE_1,
        Width::Two => DECODE_2,
        Width::Four => DECODE_4,
        Width::Eight => DECODE_8,
        Width::F16 => DECODE_F16,
        Width::Bf16 => DECODE_BF16,
        Width::F32 => DECODE_F32,
    }
}

fn adder(width: Width) -> Kernel {
    match width {
        Width::One => DECODE_ADD_1,
        Width::Two => DECODE_ADD_2,
        Width::Four => DECODE_ADD_4,
        Width::Eight => DECODE_ADD_8,
        Width::F16 => DECODE_ADD_F16,
        Width::Bf16 => DECODE_ADD_BF16,
        Width::F32 => DECODE_ADD_F32,
    }
}

/// Decodes `n_rows` rows of a message into rows `list` of `out`.
fn decode(
    way: Way,
    (kernel, codec): (Kernel, RowCodec),
    message: &Buffer,
    list: Option<&[u32]>,
    (n_rows, n_cols): (usize, usize),
    out: &Buffer,
) -> Option<Refusal> {
    let status = Status::new();
    let list = list.map(Buffer::from_values);
    let mut arguments = vec![
        Argument::from(message),
        list.as_ref().map_or(Argument::NULL, Argument::from),
        Argument::from(out),
        status.argument(),
        u32_of(n_rows),
        u32_of(n_cols),
    ];
    if codec.width.is_quantized() {
        arguments.push(metadata_number(codec.metadata));
    }
    way.run(&kernel, (n_rows, n_cols), &arguments);
    status.refusal()
}

fn message(codec: RowCodec, n_rows: usize, n_cols: usize) -> Vec<u8> {
    let (x, keys) = (numbers(31, n_rows * n_cols), words(32, n_rows));
    Rows { x: &x, n_cols, list: None, keys: &keys }.expected(codec).unwrap()
}

#[test]
fn rows_are_decoded_and_added_as_plainly() {
    let (n_rows, n_out_rows) = (21, 30);
    let mut turn = 0;
    for n_cols in WIDTHS {
        let rows = some_rows(33, n_rows, n_out_rows);
        for codec in codecs() {
            turn += 1;
            let bytes = message(codec, n_rows, n_cols);
            let (at, out_at) = ([0, 1, 2, 4, 8][turn % 5], [0, 4, 8][turn % 3]);
            let device = Buffer::at_offset(&bytes, at);

            let mut expected = vec![0.0; n_rows * n_cols];
            Plain(codec).decode_rows(&bytes, n_cols, &mut expected).unwrap();
            let out = Buffer::new(4 * n_rows * n_cols, out_at);
            let kernel = (decoder(codec.width), codec);
            let refused = decode(way(turn), kernel, &device, None, (n_rows, n_cols), &out);
            assert_eq!(refused, None, "{codec:?}");
            assert_same_bits(&out.values(), &expected, "decoded rows");

            let mut expected = numbers(34, n_out_rows * n_cols);
            let out = Buffer::at_offset(&expected, out_at);
            Plain(codec).decode_add_rows(&bytes, n_cols, &rows, &mut expected).unwrap();
            let kernel = (adder(codec.width), codec);
            let refused = decode(way(turn), kernel, &device, Some(&rows), (n_rows, n_cols), &out);
            assert_eq!(refused, None, "{codec:?}");
            assert_same_bits(&out.values(), &expected, "added rows");
        }
    }
}

#[test]
fn any_bytes_are_decoded_or_refused_as_plainly() {
    let (n_rows, n_cols) = (4, 19);
    let (mut n_refused, mut n_taken) = (0, 0);
    for turn in 0..12 {
        for codec in codecs() {
            let n_bytes = codec.message_bytes(n_rows, n_cols);
            let mut bytes: Vec<u8> =
                words(100 + turn as u64, n_bytes).iter().map(|&w| w as u8).collect();
            // Signs off and exponents lowered for some, so that not all of them are refused.
            if turn % 3 == 0 {
                bytes.iter_mut().for_each(|byte| *byte &= 0x3f);
            }
            let device = Buffer::from_values(&bytes);
            let mut expected = vec![0.0; n_rows * n_cols];
            let outcome = Plain(codec).decode_rows(&bytes, n_cols, &mut expected);
            let out = Buffer::new(4 * n_rows * n_cols, 0);
            let kernel = (decoder(codec.width), codec);
            let found = decode(way(turn), kernel, &device, None, (n_rows, n_cols), &out);
            match outcome {
                Ok(()) => {
                    assert_eq!(found, None, "{codec:?}");
                    assert_same_bits(&out.values(), &expected, "decoded bytes");
                    n_taken += 1;
                }
                Err(error) => {
                    assert_eq!(found, Some(refusal_of(&error)), "{codec:?}");
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_refused > 20 && n_taken > 20, "{n_refused} refused and {n_taken} taken");
}

fn refusal_of(error: &DecodeError) -> Refusal {
    match *error {
        DecodeError::InvalidMetadata { row } => {
            Refusal { row: row as u32, reason: Reason::Metadata, column: 0 }
        }
        DecodeError::NotFinite { row, column } => {
            Refusal { row: row as u32, reason: Reason::NotFinite, column: column as u32 }
        }
        _ => panic!("{error}"),
    }
}

#[test]
fn every_half_is_the_library_s() {
    // All patterns of both types as rows of a message, in both directions.
    let patterns: Vec<u16> = (0..=u16::MAX).collect();
    let bytes: Vec<u8> = patterns.iter().flat_map(|p| p.to_le_bytes()).collect();
    let device = Buffer::from_values(&bytes);
    for width in [Width::F16, Width::Bf16] {
        let codec = RowCodec::new(width);
        let out = Buffer::from_values(&vec![0.5_f32; patterns.len()]);
        let refused =
            decode(way(0), (decoder(width), codec), &device, None, (patterns.len() / 4, 4), &out);
        assert!(refused.is_some(), "infinities and NaNs are among them");
        let found = out.values::<f32>();
        let mut finite = Vec::new();
        for (pattern, bytes) in patterns.iter().zip(bytes.chunks_exact(2)) {
            let mut value = [0.5_f32];
            if Plain(codec).decode_rows(bytes, 1, &mut value).is_ok() {
                // A row of four that holds one that is refused may be left as it was.
                let place = usize::from(*pattern);
                let group = &patterns[place / 4 * 4..][..4];
                let exponent = if width == Width::F16 { 0x7c00 } else { 0x7f80 };
                if group.iter().all(|p| p & exponent != exponent) {
                    assert_eq!(found[place].to_bits(), value[0].to_bits(), "{width} {pattern:#x}");
                    finite.push(value[0]);
                }
            }
        }
        // Back, and the values around each.
        let around: Vec<f32> =
            finite.iter().flat_map(|v| [*v, v.next_up(), *v * 1.000_3, v.next_down()]).collect();
        let largest = finite.iter().fold(0.0_f32, |a, &b| a.max(b));
        let around: Vec<f32> = around.iter().map(|v| v.clamp(-largest, largest)).collect();
        let keys = vec![0; around.len() / 4];
        let rows = Rows { x: &around, n_cols: 4, list: None, keys: &keys };
        assert!(
            rows.encode(way(0), codec, (0, 0)).unwrap() == rows.expected(codec).unwrap(),
            "{width}"
        );
    }
}
