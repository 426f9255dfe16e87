//! Rows as bytes and back.

use sylvie_lowbit::{DecodeError, EncodeError, RowCodec, Width};
use sylvie_tensor::{Backend, CpuBackend, Wire};

use crate::{Matrix, backend, bits, dropout_draws, matrix, real_matrix};

#[test]
fn full_precision_round_trips() {
    let backend = backend();
    let codec = RowCodec::new(Width::F32);
    let x = real_matrix(1, 7, 5);
    let keys: Vec<u32> = (50..57).collect();
    let draws = dropout_draws(1);
    let message = backend.encode_all_rows(codec, &x, &keys, draws, Vec::new()).expect("finite");
    assert_eq!(message.len(), codec.message_bytes(7, 5));
    let mut out = matrix(7, 5, &[f32::NAN; 35]);
    backend.decode_rows(codec, &message, &mut out).expect("a message of seven rows");
    assert_eq!(bits(out.values()), bits(x.values()));
    let host = backend.bytes_to_host(message.clone());
    assert_eq!(backend.bytes_from_host(host), message);
}

#[test]
fn rows_are_gathered_selected_and_added() {
    let backend = backend();
    let x = real_matrix(2, 9, 11);
    let draws = dropout_draws(3);
    for codec in Width::ALL.map(RowCodec::new) {
        let (rows, keys) = (vec![8, 0, 3, 3], vec![108, 100, 103, 103]);
        // A buffer that held something else and longer.
        let used = vec![0xa5; 9999];
        let message = backend.encode_rows(codec, &x, &rows, &keys, draws, used).expect("finite");
        assert_eq!(message.len(), codec.message_bytes(4, 11));
        let all_keys: Vec<u32> = (100..109).collect();
        let all = backend.encode_all_rows(codec, &x, &all_keys, draws, Vec::new()).expect("finite");
        let selected = backend.select_rows(codec, &all, (9, 11), &rows, vec![7; 3]);
        assert_eq!(selected.as_ref(), Ok(&message), "{codec:?}");

        let mut decoded = backend.zeros(4, 11);
        backend.decode_rows(codec, &message, &mut decoded).expect("a message of four rows");
        let before = real_matrix(4, 6, 11);
        let mut sums = before.clone();
        let targets = vec![5, 0, 2, 5];
        backend.decode_add_rows(codec, &message, &targets, &mut sums).expect("four rows");
        let mut expected = before;
        for (i, &target) in targets.iter().enumerate() {
            for j in 0..11 {
                expected.values_mut()[target as usize * 11 + j] += decoded.row(i)[j];
            }
        }
        assert_eq!(bits(sums.values()), bits(expected.values()), "{codec:?}");
    }
}

#[test]
fn no_rows_are_no_bytes() {
    let backend = backend();
    let x = backend.zeros(0, 4);
    let codec = RowCodec::new(Width::One);
    let message = backend.encode_all_rows(codec, &x, &vec![], dropout_draws(1), vec![1, 2]);
    assert_eq!(message, Ok(Vec::new()));
    let mut out = backend.zeros(0, 4);
    assert_eq!(backend.decode_rows(codec, &Vec::new(), &mut out), Ok(()));
}

#[test]
fn bad_rows_and_bad_messages_are_errors() {
    let backend = backend();
    let mut x = real_matrix(5, 3, 4);
    x.values_mut()[9] = f32::NAN;
    let draws = dropout_draws(1);
    for codec in Width::ALL.map(RowCodec::new) {
        let result = backend.encode_rows(codec, &x, &vec![0, 2], &vec![0, 2], draws, Vec::new());
        assert!(matches!(&result, Err(error @ EncodeError::NotFinite { .. }) if error.row() == 1));
        let short = vec![0; codec.message_bytes(3, 4) - 1];
        let wrong = |result| matches!(result, Err(DecodeError::WrongLength { .. }));
        let mut out = backend.zeros(3, 4);
        assert!(wrong(backend.decode_rows(codec, &short, &mut out)));
        assert!(wrong(backend.decode_add_rows(codec, &short, &vec![0, 1, 2], &mut out)));
        let selected = backend.select_rows(codec, &short, (3, 4), &vec![0], Vec::new());
        assert!(wrong(selected.map(|_| ())));
    }
}

/// A matrix large enough to be cut, with rows of very different ranges, and rows and keys to encode.
fn large_case() -> (Matrix, Vec<u32>, Vec<u32>) {
    let (n_rows, n_cols) = (2500, 100);
    let mut x = real_matrix(6, n_rows, n_cols);
    for (row, values) in x.values_mut().chunks_exact_mut(n_cols).enumerate() {
        let factor = ((row % 17) as f32 - 8.0).exp2();
        values.iter_mut().for_each(|value| *value *= factor);
    }
    let rows: Vec<u32> = (0..n_rows as u32).filter(|row| row % 5 != 3).collect();
    let keys = rows.iter().map(|row| 7 * row + 1).collect();
    (x, rows, keys)
}

#[test]
fn many_threads_write_and_read_the_same_bytes() {
    let (x, rows, keys) = large_case();
    let (all_keys, n_cols) = ((0..2500).collect(), x.n_cols());
    let shuffled: Vec<u32> = (0..rows.len() as u32).map(|i| i * 7 % rows.len() as u32).collect();
    let repeated: Vec<u32> = (0..rows.len() as u32).map(|i| i * i % 2500).collect();
    let draws = dropout_draws(5);
    for codec in Width::ALL.map(RowCodec::new) {
        let run = |n_threads| {
            let backend = CpuBackend::new(n_threads);
            let some = backend.encode_rows(codec, &x, &rows, &keys, draws, vec![3; 10]);
            let some = some.expect("finite");
            let all = backend.encode_all_rows(codec, &x, &all_keys, draws, Vec::new());
            let all = all.expect("finite");
            let shape = (rows.len(), n_cols);
            let selected = backend.select_rows(codec, &some, shape, &shuffled, vec![9; 1 << 20]);
            let mut decoded = backend.matrix_to_assign(rows.len(), n_cols);
            backend.decode_rows(codec, &some, &mut decoded).expect("a whole message");
            let mut added = [real_matrix(8, 2500, n_cols), real_matrix(8, 2500, n_cols)];
            for (targets, added) in [&rows, &repeated].into_iter().zip(&mut added) {
                backend.decode_add_rows(codec, &some, targets, added).expect("a whole message");
            }
            let [ascending, mixed] = added.map(|added| bits(added.values()));
            (
                some,
                all,
                selected.expect("a whole message"),
                bits(decoded.values()),
                ascending,
                mixed,
            )
        };
        let one = run(1);
        for n_threads in [2, 4] {
            assert!(one == run(n_threads), "1 and {n_threads} threads differ, {codec:?}");
        }
    }
}

#[test]
fn many_threads_name_the_first_bad_row() {
    let (good, rows, keys) = large_case();
    let n_cols = good.n_cols();
    let mut bad = good.clone();
    // Rows 700, 1900 and 2400 of the matrix, the later ones in ranges of their own.
    for row in [2400, 1900, 700] {
        bad.values_mut()[row * n_cols + 5] = f32::INFINITY;
    }
    let place = |row| rows.binary_search(&row).expect("an encoded row");
    let draws = dropout_draws(5);
    for n_threads in [1, 2, 4] {
        let backend = CpuBackend::new(n_threads);
        for codec in Width::ALL.map(RowCodec::new) {
            let result = backend.encode_rows(codec, &bad, &rows, &keys, draws, Vec::new());
            assert_eq!(result.expect_err("an infinity").row(), place(700), "{codec:?}");
            let all_keys = (0..2500).collect();
            let result = backend.encode_all_rows(codec, &bad, &all_keys, draws, Vec::new());
            assert_eq!(result.expect_err("an infinity").row(), 700, "{codec:?}");

            let message = backend.encode_rows(codec, &good, &rows, &keys, draws, Vec::new());
            let mut message = message.expect("finite");
            // All bits set are a NaN, in metadata and in floating-point payloads.
            for row in [1900, 1234] {
                let len = match codec.row_metadata_bytes() {
                    0 => codec.row_payload_bytes(n_cols),
                    len => len,
                };
                message[place(row) * len..][..len].fill(0xff);
            }
            let row_of = |result: Result<(), DecodeError>| match result {
                Err(DecodeError::InvalidMetadata { row } | DecodeError::NotFinite { row, .. }) => {
                    row
                }
                other => panic!("{other:?} for a message with bad rows"),
            };
            let mut out = backend.zeros(rows.len(), n_cols);
            assert_eq!(row_of(backend.decode_rows(codec, &message, &mut out)), place(1234));
            let mut out = backend.zeros(2500, n_cols);
            let result = backend.decode_add_rows(codec, &message, &rows, &mut out);
            assert_eq!(row_of(result), place(1234), "{codec:?}");

            let short = &message[1..].to_vec();
            let mut out = backend.zeros(rows.len(), n_cols);
            let wrong = DecodeError::WrongLength { expected: message.len(), found: short.len() };
            assert_eq!(backend.decode_rows(codec, short, &mut out), Err(wrong.clone()));
            let shape = (rows.len(), n_cols);
            let positions: Vec<u32> = (0..rows.len() as u32).collect();
            let selected = backend.select_rows(codec, short, shape, &positions, Vec::new());
            assert_eq!(selected, Err(wrong));
        }
    }
}
