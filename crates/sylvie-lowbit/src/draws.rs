//! The random bits of one row: 8 for every value, 16 more where those 8 do not decide.

use sylvie_random::Family;

/// Column blocks from here on hold the 16 bits of ties, those below the 8 bits of every value.
pub(crate) const FIRST_TIE_BLOCK: u32 = 1 << 31;
/// Values whose 8 bits come from one block.
pub(crate) const BLOCK_VALUES: usize = 16;
/// Values whose 16 bits for ties come from one block.
pub(crate) const TIE_BLOCK_VALUES: usize = 8;

/// The draws of the row with one key.
#[derive(Clone, Copy)]
pub(crate) struct RowDraws {
    pub(crate) family: Family,
    pub(crate) key: u32,
}

impl RowDraws {
    /// The 8 bits of columns `16 * block ..`.
    #[inline]
    pub(crate) fn bytes(self, block: usize) -> [u8; BLOCK_VALUES] {
        little_endian(self.family.short_block(self.key, block as u32))
    }

    /// The 16 further bits of a column.
    #[inline]
    pub(crate) fn tie(self, column: usize) -> u16 {
        let block = FIRST_TIE_BLOCK | (column / TIE_BLOCK_VALUES) as u32;
        let bytes = little_endian(self.family.short_block(self.key, block));
        let at = column % TIE_BLOCK_VALUES * 2;
        u16::from_le_bytes([bytes[at], bytes[at + 1]])
    }
}

fn little_endian(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}
