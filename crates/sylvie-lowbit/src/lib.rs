//! Unbiased low-bit row quantisation for exchanging matrices.
//!
//! A [`RowCodec`] turns rows of an `f32` matrix into bytes at 1, 2, 4 or 8 bits a value, in half
//! precision (`f16`, `bf16`) or as they are (`f32`), and back. At 1 to 8 bits every row has its own
//! zero point and scale, and values are rounded up or down at random such that the decoded value is
//! right on average: `E[decode(encode(x))] = x`, with the metadata actually sent. Each draw is a
//! function of coordinates ([`sylvie_random::Family`], row key, column), so the same row always gives
//! the same bytes, on any thread and machine.
//!
//! This is the plain version: it defines the bytes, and faster versions are held to it. The bytes are
//! described in `docs/wire-format.md`.
//!
//! The codec is unbiased; a network that quantises *inside* its forward pass, before a nonlinearity,
//! has a gradient that is not strictly so.
//!
//! ```
//! use sylvie_lowbit::{RowCodec, Width};
//! use sylvie_random::{Coordinates, Stream};
//!
//! let codec = RowCodec::new(Width::Two);
//! let x = [0.0, 1.0, 3.0, 0.5, -1.0, 0.0];
//! let draws = Coordinates::new(7, Stream::Rounding).family();
//! let mut message = vec![0; codec.message_bytes(2, 3)];
//! codec.encode_all(&x, 3, &[10, 11], draws, &mut message)?;
//! let mut decoded = [0.0; 6];
//! codec.decode_rows(&message, 3, &mut decoded)?;
//! assert_eq!(decoded, x); // these values are levels of their rows
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Paper
//! Equations 3 to 7: one group per row, stochastic rounding, the error of a row.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(target_arch = "x86_64")]
mod avx2;
mod codec;
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
