//! Sums over neighbours from packed rows, against decoding them first, bit for bit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sylvie_lowbit::{DecodeError, MetadataType, RowCodec, Width};
use sylvie_random::{Coordinates, Pass, Stream};
use sylvie_tensor::{Backend, CpuBackend, Wire};

use crate::{Matrix, backend, bits, block, dropout_draws, edges, real_matrix};

/// Around bytes, registers and blocks of columns.
const WIDTHS: [usize; 11] = [1, 7, 8, 9, 31, 32, 33, 64, 65, 100, 128];
const N_ROWS: usize = 300;
/// More than are packed together.
const N_HALO: usize = 550;

fn codecs() -> impl Iterator<Item = RowCodec> {
    let widths = [Width::One, Width::Two, Width::Four, Width::Eight];
    let types = [MetadataType::Bf16, MetadataType::F32];
    widths.into_iter().flat_map(move |width| types.map(|metadata| RowCodec { width, metadata }))
}

fn keys() -> Vec<u32> {
    (1000..).take(N_HALO).collect()
}

/// Rows of all kinds as a message, and decoded: random ones, one of zeros, one that is constant, one far
/// from zero.
fn message(codec: RowCodec, width: usize) -> (Vec<u8>, Matrix) {
    let backend = backend();
    let mut x = real_matrix(2, N_HALO, width);
    x.values_mut()[..width].fill(0.0);
    x.values_mut()[width..2 * width].fill(-1.3);
    x.values_mut()[2 * width..3 * width].iter_mut().for_each(|value| *value += 1e4);
    let draws = Coordinates::new(1, Stream::Rounding).at(2, 1, Pass::Forward).family();
    let message = backend.encode_all_rows(codec, &x, &keys(), draws, Vec::new());
    let message = message.expect("rows that can be encoded");
    let mut decoded = backend.matrix_to_assign(N_HALO, width);
    backend.decode_rows(codec, &message, &mut decoded).expect("a message just encoded");
    (message, decoded)
}

#[test]
fn sums_are_those_of_decoded_rows() {
    let pairs = edges(1, N_ROWS, N_HALO, 2500);
    let mut factors = real_matrix(3, N_HALO, 1);
    factors.values_mut().iter_mut().step_by(7).for_each(|factor| *factor = 0.0);
    for codec in codecs() {
        for width in WIDTHS {
            let (message, decoded) = message(codec, width);
            // Sums so far are never -0: that of nothing is 0.
            let before = real_matrix(4, N_ROWS, width);
            for (rate, factors) in
                [(0.0, None), (0.0, Some(&factors)), (0.4, None), (0.4, Some(&factors))]
            {
                let draws = dropout_draws(5);
                let read = match rate > 0.0 {
                    true => backend().dropped(rate, draws, &keys(), &decoded),
                    false => decoded.clone(),
                };
                let mut expected = before.clone();
                let edges = backend().upload_block(&block(N_HALO, &pairs));
                backend().aggregate(&edges, factors, &read, &mut expected);
                for n_threads in [1, 3] {
                    let backend = CpuBackend::new(n_threads);
                    let rows = backend.packed_rows(codec, &message, (N_HALO, width));
                    let mut rows = rows.expect("a message just encoded");
                    if rate > 0.0 {
                        rows = backend.packed_dropped(rate, draws, &keys(), &rows);
                    }
                    let what = format!("{codec:?}, width {width}, rate {rate}");
                    assert_eq!(backend.packed_shape(&rows), (N_HALO, width));
                    let unpacked = backend.unpacked(&rows);
                    assert!(bits(unpacked.values()) == bits(read.values()), "{what}");
                    let mut found = before.clone();
                    backend.aggregate_packed(&edges, factors, &rows, &mut found);
                    assert!(bits(found.values()) == bits(expected.values()), "{what}");
                }
            }
        }
    }
}

#[test]
fn bits_that_fill_up_a_byte_are_not_looked_at() {
    let codec = RowCodec::new(Width::Two);
    let (mut message, decoded) = message(codec, 33);
    *message.last_mut().expect("a byte") |= 0xFC;
    let backend = backend();
    let rows = backend.packed_rows(codec, &message, (N_HALO, 33)).expect("a message");
    assert_eq!(bits(backend.unpacked(&rows).values()), bits(decoded.values()));
    let pairs = edges(1, N_ROWS, N_HALO, 900);
    let edges = backend.upload_block(&block(N_HALO, &pairs));
    let (mut found, mut expected) = (backend.zeros(N_ROWS, 33), backend.zeros(N_ROWS, 33));
    backend.aggregate_packed(&edges, None, &rows, &mut found);
    backend.aggregate(&edges, None, &decoded, &mut expected);
    assert_eq!(bits(found.values()), bits(expected.values()));
}

#[test]
fn bad_messages_are_refused_as_decoding_refuses_them() {
    let backend = backend();
    let mut out = backend.matrix_to_assign(N_HALO, 20);
    for codec in codecs() {
        let (mut message, _) = message(codec, 20);
        let mut refused = |message: &Vec<u8>| {
            let error = backend.decode_rows(codec, message, &mut out).expect_err("a bad message");
            let found = backend.packed_rows(codec, message, (N_HALO, 20)).expect_err("the same");
            assert_eq!(found, error);
            error
        };
        assert!(matches!(refused(&message[1..].to_vec()), DecodeError::WrongLength { .. }));
        let zero = 2 * codec.metadata.bytes() * 407;
        message[zero..zero + codec.metadata.bytes()].fill(0xFF);
        assert_eq!(refused(&message), DecodeError::InvalidMetadata { row: 407 });
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let codec = RowCodec::new(Width::One);
    let (message, _) = message(codec, 8);
    let backend = backend();
    let rows = backend.packed_rows(codec, &message, (N_HALO, 8)).expect("a message");
    let edges = backend.upload_block(&block(N_HALO - 1, &[(0, 0)]));
    let factors = backend.zeros(N_HALO - 1, 1);
    let whole = backend.upload_block(&block(N_HALO, &[(3, 0)]));
    let draws = dropout_draws(1);
    let dropped = backend.packed_dropped(0.5, draws, &keys(), &rows);
    let sum = |edges, factors, shape: (usize, usize)| {
        backend.aggregate_packed(edges, factors, &rows, &mut backend.zeros(shape.0, shape.1));
    };
    let calls: [(&str, &dyn Fn()); 7] = [
        ("columns of the block", &|| sum(&edges, None, (4, 8))),
        ("rows of the block", &|| sum(&whole, None, (3, 8))),
        ("width", &|| sum(&whole, None, (4, 9))),
        ("factors", &|| sum(&whole, Some(&factors), (4, 8))),
        ("keys", &|| drop(backend.packed_dropped(0.5, draws, &vec![1], &rows))),
        ("dropout twice", &|| drop(backend.packed_dropped(0.5, draws, &keys(), &dropped))),
        ("no packed width", &|| {
            drop(backend.packed_rows(RowCodec::new(Width::F16), &message, (N_HALO, 8)));
        }),
    ];
    for (what, call) in calls {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "{what} was not refused");
    }
    sum(&whole, None, (4, 8));
}

#[test]
fn packed_rows_take_no_new_memory_once_they_went_round() {
    let codec = RowCodec::new(Width::One);
    let (message, _) = message(codec, 64);
    let backend = CpuBackend::new(1);
    let edges = backend.upload_block(&block(N_HALO, &edges(1, N_ROWS, N_HALO, 900)));
    let mut sums = backend.zeros(N_ROWS, 64);
    let mut round = || {
        let rows = backend.packed_rows(codec, &message, (N_HALO, 64)).expect("a message");
        let rows = backend.packed_dropped(0.5, dropout_draws(1), &keys(), &rows);
        let in_use = backend.buffer_use().in_use_bytes;
        backend.aggregate_packed(&edges, None, &rows, &mut sums);
        drop(rows);
        (in_use, backend.buffer_use())
    };
    let first = round();
    assert_eq!(round(), first);
    // Codes, a mask and levels: less than an eighth of the rows as floats.
    let held = first.0 - first.1.in_use_bytes;
    assert!(held < (N_HALO * 64 * 4 / 8) as u64, "{held} bytes");
}
