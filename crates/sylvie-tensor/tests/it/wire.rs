//! Rows as bytes and back.

use sylvie_lowbit::{DecodeError, EncodeError, RowCodec, Width};
use sylvie_tensor::{Backend, Wire};

use crate::{backend, bits, dropout_draws, matrix, real_matrix};

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
