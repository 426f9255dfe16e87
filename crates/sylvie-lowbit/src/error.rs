//! What can go wrong with a row, a message or a word on the command line.

use alloc::string::String;

use crate::{MetadataType, Width};

/// Why rows could not be encoded. Rows are counted from 0 within the call.
///
/// # Example
/// ```
/// use sylvie_lowbit::{EncodeError, MetadataType, RowCodec, Width};
///
/// let codec = RowCodec { width: Width::One, metadata: MetadataType::F16 };
/// let error = codec.expected_squared_error(&[0.0, 1e6]).unwrap_err();
/// assert_eq!(error, EncodeError::MetadataOverflow { row: 0, metadata: MetadataType::F16 });
/// assert_eq!(error.row(), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A value is a NaN or an infinity.
    #[error("row {row} holds a NaN or an infinity in column {column}")]
    NotFinite {
        /// Row within the call.
        row: usize,
        /// First such column.
        column: usize,
    },
    /// The zero point or the scale is infinite in the type that carries it.
    #[error("row {row} needs a zero point or a scale beyond the range of {metadata}")]
    MetadataOverflow {
        /// Row within the call.
        row: usize,
        /// Type of the metadata.
        metadata: MetadataType,
    },
    /// The distance between a row's values, or its highest level, is infinite in `f32`.
    #[error("row {row} spans a range beyond f32")]
    RangeOverflow {
        /// Row within the call.
        row: usize,
    },
    /// A finite value rounds to infinity at a half-precision width.
    #[error("row {row}, column {column}: value beyond the range of {width}")]
    ValueOverflow {
        /// Row within the call.
        row: usize,
        /// First such column.
        column: usize,
        /// Width of the codec.
        width: Width,
    },
}

impl EncodeError {
    /// The row within the call, for callers that know which node it stands for.
    #[must_use]
    pub const fn row(&self) -> usize {
        match *self {
            Self::NotFinite { row, .. }
            | Self::MetadataOverflow { row, .. }
            | Self::RangeOverflow { row }
            | Self::ValueOverflow { row, .. } => row,
        }
    }
}

/// Why a message was refused. Rows are counted from 0 within the message.
///
/// # Example
/// ```
/// use sylvie_lowbit::{DecodeError, RowCodec, Width};
///
/// // A message whose scale, bytes 2 and 3, is a NaN of bf16.
/// let message = [0, 0, 0xc0, 0x7f, 0b01];
/// let refused = RowCodec::new(Width::One).decode_rows(&message, 2, &mut [0.0; 2]);
/// assert_eq!(refused, Err(DecodeError::InvalidMetadata { row: 0 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message does not have the length that its rows, columns and codec imply.
    #[error("message of {found} bytes where {expected} were expected")]
    WrongLength {
        /// Length implied by rows, columns and codec.
        expected: usize,
        /// Length of the message.
        found: usize,
    },
    /// The zero point or scale is a NaN or an infinity, the scale is negative, or the highest level
    /// is infinite.
    #[error("row {row} of the message has an invalid zero point or scale")]
    InvalidMetadata {
        /// Row within the message.
        row: usize,
    },
    /// A value of a floating-point payload is a NaN or an infinity.
    #[error("row {row} of the message holds a NaN or an infinity in column {column}")]
    NotFinite {
        /// Row within the message.
        row: usize,
        /// First such column.
        column: usize,
    },
}

/// A word that names no width or no metadata type.
///
/// # Example
/// ```
/// use sylvie_lowbit::{ParseError, Width};
///
/// assert_eq!("3".parse::<Width>(), Err(ParseError::Width { given: "3".to_owned() }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Not a [`Width`].
    #[error("unknown width `{given}`: allowed are 1, 2, 4, 8, f16, bf16 and f32")]
    Width {
        /// The word.
        given: String,
    },
    /// Not a [`MetadataType`].
    #[error("unknown metadata type `{given}`: allowed are f32, bf16 and f16")]
    MetadataType {
        /// The word.
        given: String,
    },
}
