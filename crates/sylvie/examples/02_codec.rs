//! The codec alone: two rows to one bit a value and back.
#![allow(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;

use sylvie::lowbit::{RowCodec, Width};
use sylvie::random::{Coordinates, Stream};

fn main() -> Result<(), Box<dyn Error>> {
    let codec = RowCodec::new(Width::One);
    let x = [0.0, 0.2, 1.0, 0.7, 5.0, 5.0, 5.0, 5.0]; // 2 rows x 4 columns
    let draws = Coordinates::new(7, Stream::Rounding).family();
    let mut message = vec![0; codec.message_bytes(2, 4)];
    codec.encode_all(&x, 4, &[100, 101], draws, &mut message)?; // row keys: node ids
    let mut decoded = [0.0; 8];
    codec.decode_rows(&message, 4, &mut decoded)?; // unbiased: right on average
    println!("{} bytes instead of {}", message.len(), size_of_val(&x));
    println!("{x:?} became\n{decoded:?}");
    Ok(())
}
