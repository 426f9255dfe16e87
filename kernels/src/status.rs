//! The word in which kernels of the codec report the first row that they refuse.

/// What a status word holds before a launch, and after one that refused nothing.
pub const ACCEPTED: u64 = u64::MAX;

/// Columns that a status word can name.
pub const MAX_COLUMNS: u32 = 1 << 30;

/// Why a row was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Encoding or decoding: a value is a NaN or an infinity.
    NotFinite,
    /// Encoding: the zero point or the scale is infinite in the type that carries it. Decoding: the zero
    /// point or the scale is one that no encoder writes.
    Metadata,
    /// Encoding: the distance between the row's values, or its highest level, is infinite.
    Range,
    /// Encoding: a value rounds to infinity at a half-precision width.
    ValueOverflow,
}

/// The first row that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Row of the message.
    pub row: u32,
    /// Why.
    pub reason: Reason,
    /// First column with that fault; 0 where the whole row is at fault.
    pub column: u32,
}

/// Reads a status word.
///
/// # Layout
/// Row in the upper 32 bits, then 2 bits of reason, then 30 bits of column. Kernels keep the smallest word,
/// hence the first row, and of its faults the one that the CPU names.
///
/// # Example
/// ```
/// use sylvie_kernels::{ACCEPTED, Reason, Refusal, refusal};
///
/// assert_eq!(refusal(ACCEPTED), None);
/// let word = 7 << 32 | 41; // what a kernel writes of a NaN in row 7, column 41
/// assert_eq!(refusal(word), Some(Refusal { row: 7, reason: Reason::NotFinite, column: 41 }));
/// ```
#[must_use]
pub const fn refusal(word: u64) -> Option<Refusal> {
    if word == ACCEPTED {
        return None;
    }
    let reason = match (word >> 30) & 3 {
        0 => Reason::NotFinite,
        1 => Reason::Metadata,
        2 => Reason::Range,
        _ => Reason::ValueOverflow,
    };
    let column = word as u32 & (MAX_COLUMNS - 1);
    Some(Refusal { row: (word >> 32) as u32, reason, column })
}

#[cfg(test)]
mod tests {
    use super::{ACCEPTED, Reason, Refusal, refusal};

    #[test]
    fn a_word_names_row_reason_and_column() {
        assert_eq!(refusal(ACCEPTED), None);
        let expected = Refusal { row: 7, reason: Reason::Range, column: 0 };
        assert_eq!(refusal(7 << 32 | 2 << 30), Some(expected));
        let expected = Refusal { row: u32::MAX, reason: Reason::NotFinite, column: 41 };
        assert_eq!(refusal(u64::from(u32::MAX) << 32 | 41), Some(expected));
    }
}
