//! Numbers as npy files store them.

use std::fmt;
use std::io::{self, Read};

use half::f16;

/// A number as it is stored.
pub(crate) trait Stored: Copy + fmt::Display {
    const N_BYTES: usize;

    /// # Panics
    /// If there are not [`Stored::N_BYTES`].
    fn from_bytes(bytes: &[u8], is_big: bool) -> Self;
}

macro_rules! stored {
    ($($number:ty),*) => {$(
        impl Stored for $number {
            const N_BYTES: usize = size_of::<Self>();

            #[inline]
            fn from_bytes(bytes: &[u8], is_big: bool) -> Self {
                let mut word = [0; size_of::<Self>()];
                word.copy_from_slice(bytes);
                if is_big { Self::from_be_bytes(word) } else { Self::from_le_bytes(word) }
            }
        }
    )*};
}

stored!(i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64);

/// Reads until `bytes` is full; tells how many were read before what went wrong.
pub(crate) fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), (usize, io::Error)> {
    let mut n_read = 0;
    while n_read < bytes.len() {
        match reader.read(&mut bytes[n_read..]) {
            Ok(0) => {
                let problem =
                    io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before it");
                return Err((n_read, problem));
            }
            Ok(more) => n_read += more,
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(problem) => return Err((n_read, problem)),
        }
    }
    Ok(())
}
