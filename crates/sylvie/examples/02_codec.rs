//! The codec alone: rows to one bit a value and back, once and on average.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;

use sylvie::lowbit::{RowCodec, Width};
use sylvie::random::{Coordinates, Pass, Stream};

const N_COLS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let codec = RowCodec::new(Width::One);
    let x = [0.0, 0.2, 1.0, 0.7, 5.0, 5.0, 5.0, 5.0]; // 2 rows x 4 columns
    let keys = [100, 101]; // what both sides call these rows: node ids
    let mut message = vec![0; codec.message_bytes(2, N_COLS)];
    let mut decoded = [0.0; 8];

    // Draws are a function of coordinates: the same epoch gives the same bytes, anywhere.
    let draws = |epoch| Coordinates::new(7, Stream::Rounding).at(epoch, 1, Pass::Forward).family();
    codec.encode_all(&x, N_COLS, &keys, draws(0), &mut message)?;
    codec.decode_rows(&message, N_COLS, &mut decoded)?;
    println!("{} bytes instead of {}", message.len(), size_of_val(&x));
    println!("{x:?} became\n{decoded:?}");
    assert_eq!(decoded[4..], x[4..]); // a constant row that its metadata can say comes back

    // Each value is rounded to an end of its row, at random and right on average.
    let n_epochs = 1000;
    let mut sums = [0.0; 8];
    for epoch in 0..n_epochs {
        codec.encode_all(&x, N_COLS, &keys, draws(epoch), &mut message)?;
        codec.decode_rows(&message, N_COLS, &mut decoded)?;
        sums.iter_mut().zip(decoded).for_each(|(sum, value)| *sum += value);
    }
    let means = sums.map(|sum| sum / n_epochs as f32);
    println!("the mean of {n_epochs} messages is\n{means:.3?}");
    assert!(means.iter().zip(x).all(|(mean, value)| (mean - value).abs() < 0.06));

    // How far off one message is, is known before it is sent.
    let expected = codec.expected_squared_error(&x[..N_COLS])?;
    println!("expected squared error of the first row: {expected:.3}");
    Ok(())
}
