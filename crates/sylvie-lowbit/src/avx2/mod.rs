//! The codec in AVX2 and FMA instructions, byte for byte what the plain version writes.
//!
//! The only module with `unsafe`: loads, stores, and calls of functions compiled for instructions whose
//! presence an [`Avx2`] proves. Encoding decides nearly every value by approximate arithmetic with a
//! margin that covers its error, and leaves the others, about one in 200, to the plain rule; so no
//! rounding of its own can reach the bytes.
#![allow(unsafe_code)]

mod decide;
mod decode;
mod draws;
mod encode;
mod fit;
mod levels;
mod pack;
mod range;
mod stream;

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use sylvie_random::Family;

use crate::encode::Rows;
use crate::{EncodeError, RowCodec};

/// Proof that this processor has the instructions. Only [`Avx2::detect`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, where there is one.
    pub(crate) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let found = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
        #[cfg(not(feature = "std"))]
        let found = cfg!(all(target_feature = "avx2", target_feature = "fma"));
        found.then_some(Self(()))
    }

    /// Encodes rows at a quantised width; lengths have been checked.
    pub(crate) fn encode<'x>(
        self,
        codec: RowCodec,
        rows: &impl Rows<'x>,
        n_cols: usize,
        row_keys: &[u32],
        family: Family,
        out: &mut [u8],
    ) -> Result<(), EncodeError> {
        // SAFETY: `self` exists only where the processor has AVX2 and FMA.
        unsafe { encode::encode(codec, rows, n_cols, row_keys, family, out) }
    }

    /// Asks for a row some rows before its turn.
    #[inline]
    pub(crate) fn ask(self, rows: &[f32], row_idx: usize, n_cols: usize) {
        // SAFETY: a value of this type is made only where the processor has AVX2 and FMA.
        unsafe { prefetch(rows, row_idx, n_cols) }
    }
}

/// How many rows before its turn a row is asked for: enough to hide memory, few enough to stay in the
/// fastest cache until then.
pub(crate) fn rows_ahead(n_cols: usize) -> usize {
    (1024 / n_cols.max(1)).clamp(1, 8)
}

/// Asks for the cache lines of a row; asking for memory that does not exist does nothing. The processor
/// foresees addresses that ascend, but not beyond a page.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn prefetch(rows: &[f32], row_idx: usize, n_cols: usize) {
    let row = rows.as_ptr().wrapping_add(row_idx.wrapping_mul(n_cols));
    for column in (0..n_cols).step_by(16) {
        _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(column).cast());
    }
}
