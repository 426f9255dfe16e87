//! Unbiased low-bit row quantisation for exchanging matrices.
//!
//! A [`RowCodec`] turns rows of an `f32` matrix into bytes at 1, 2, 4 or 8 bits a value, in half
//! precision (`f16`, `bf16`) or as they are (`f32`), and back. At one bit a message is a thirty-second of
//! the matrix, and 4 bytes a row.
//!
//! # The idea
//! Each row gets its own zero point and scale, so that its values lie between the lowest and the
//! highest of `2^bits` evenly spaced levels. A value between two levels is rounded up or down *at
//! random*, up with the probability of its position between the two. Then
//!
//! - `E[decode(encode(x))] = x`, with the zero point and the scale actually sent: errors of many rows
//!   cancel in sums and means, as those of rounding to nearest do not;
//! - a value that is a level comes back exactly, zeros above all;
//! - the error of a row is known before it is sent (see below).
//!
//! Every random bit is a function of coordinates: seed, epoch, layer, pass ([`sylvie_random::Family`]),
//! row key and column. The same row always gives the same bytes, on any thread and machine.
//!
//! # Example
//! Two workers: one encodes the rows that the other reads, the other decodes them, and later sends
//! gradients of those rows back, which are added where they belong.
//!
//! ```
//! use sylvie_lowbit::{RowCodec, Width};
//! use sylvie_random::{Coordinates, Pass, Stream};
//!
//! let n_cols = 4;
//! let x = [0.0, 1.0, 2.0, 3.0, 0.1, 0.2, 0.3, 0.4, -1.0, 0.0, 0.0, 2.0]; // 3 rows
//! let codec = RowCodec::new(Width::Two);
//! let draws = |epoch, pass| Coordinates::new(7, Stream::Rounding).at(epoch, 1, pass).family();
//!
//! // Rows 0 and 2 go out. Their keys are what both sides call those rows everywhere.
//! let (boundary, keys) = ([0, 2], [1000, 1002]);
//! let mut message = vec![0; codec.message_bytes(boundary.len(), n_cols)];
//! assert_eq!(message.len(), 2 * 4 + 2); // two rows of metadata, two rows of codes
//! codec.encode_rows(&x, n_cols, &boundary, &keys, draws(0, Pass::Forward), &mut message)?;
//!
//! // The other side knows the shape, and checks the length before it reads a byte.
//! let mut halo = [0.0; 8];
//! codec.decode_rows(&message, n_cols, &mut halo)?;
//! assert_eq!(halo[..4], x[..4]); // evenly spaced: these values are levels
//! assert!(codec.decode_rows(&message[1..], n_cols, &mut halo).is_err());
//!
//! // Gradients come back and are added to the rows they are of.
//! let gradients = [0.5_f32; 8];
//! codec.encode_all(&gradients, n_cols, &keys, draws(0, Pass::Backward), &mut message)?;
//! let mut sums = [1.0; 12];
//! codec.decode_add_rows(&message, n_cols, &boundary, &mut sums)?;
//! assert_eq!(sums[..8], [1.5, 1.5, 1.5, 1.5, 1.0, 1.0, 1.0, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! ```text
//!  bytes  0        2         4        6              4n            4n + ceil(d b / 8)
//!         +--------+---------+--------+---------+----+-------------+-------------+----
//!         | zero 0 | scale 0 | zero 1 | scale 1 | .. | codes row 0 | codes row 1 | ..
//!         +--------+---------+--------+---------+----+-------------+-------------+----
//!
//!  a row at 1 bit:  byte 0 = v7 v6 v5 v4 v3 v2 v1 v0,  byte 1 = v15 .. v8,  ...
//!         at 4 bits: byte 0 = v1 v0,                   byte 1 = v3 v2,      ...
//! ```
//! `n` rows of `d` columns at `b` bits, drawn with 2-byte metadata ([`MetadataType`]: `bf16` unless told
//! otherwise). Code `k` means `zero + k * scale`. No header, no alignment, little-endian. The page
//! `docs/wire-format.md` of the repository fixes every byte, with worked examples; [`WIRE_VERSION`] counts
//! its changes.
//!
//! # Error bounds
//! With `B = 2^b - 1` and a row that spans `R` from its lowest to its highest level:
//!
//! | | |
//! |---|---|
//! | error of a value | less than `R / B` |
//! | its mean | 0 (to `R / B * 2^-24`, what 24 random bits can say) |
//! | expected squared error of a row | `sum_j (x_j - a_j)(b_j - x_j)`, levels `a_j <= x_j <= b_j` around `x_j` |
//! | the same at one bit | `sum_j (x_j - min)(max - x_j)` |
//! | at most | `d R^2 / (4 B^2)` |
//! | with positions spread evenly | about `d R^2 / (6 B^2)` |
//!
//! [`RowCodec::expected_squared_error`] computes the third for a given row,
//! [`RowCodec::worst_squared_error`] the fifth. The codec is unbiased; a network that quantises *inside*
//! its forward pass, before a nonlinearity, has a gradient that is not strictly so.
//!
//! # Speed
//! On x86-64 with AVX2 and FMA, found at run time (feature `std`), encoding gathers, finds the range,
//! draws and packs in one read of memory. Other machines run the plain version, [`Plain`], which is the
//! specification: both give the same bytes, which property tests hold. No allocation, no threads.
//! [`RowCodec::decode_rows_streaming`] is for results larger than the caches.
//!
//! # Features
//! `std` (default): detection of the processor's instructions. Without it the crate is `no_std`, and the
//! bytes are the same. `cuda`: the codec on CUDA devices, whose libraries are loaded at run time.
//!
//! # Paper
//! Equation 3: one group per row, `q = SR((h - min) / scale)`, `scale = (max - min) / B`. Equation 4:
//! stochastic rounding. Equation 5: `h~ = q * scale + min`. Theorem 1: equation 6, unbiasedness, and
//! equation 7, bounded variance. Differences: the zero point and the scale are rounded away from the row, so
//! that no value is cut off; the probability of rounding up is taken between the two levels as they will be
//! decoded; constant rows divide by nothing.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(target_arch = "x86_64")]
mod avx2;
mod codec;
#[cfg(feature = "cuda")]
mod cuda;
mod decode;
mod draws;
mod encode;
mod engine;
mod error;
mod error_bounds;
mod float_rows;
mod levels;
mod metadata;
mod plain;
mod width;

pub use codec::RowCodec;
#[cfg(feature = "cuda")]
pub use cuda::{DeviceList, DeviceRows};
pub use error::{DecodeError, EncodeError, ParseError};
pub use metadata::MetadataType;
pub use plain::Plain;
pub use width::Width;

/// Version of the byte layout, for handshakes: ranks whose versions differ must not exchange messages.
pub const WIRE_VERSION: u32 = 2;

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
