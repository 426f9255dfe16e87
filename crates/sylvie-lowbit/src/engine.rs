//! Which implementation does the work. All give the same bytes.

#[cfg(target_arch = "x86_64")]
use crate::avx2::{Avx2, rows_ahead};

/// An implementation that this machine can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The specification.
    Plain,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Engine {
    /// The fastest one.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            return Self::Avx2(avx2);
        }
        Self::Plain
    }

    /// Asks for the row of a matrix that is read or written some rows after row `row_idx` of a message, where that helps;
    /// `upcoming` names it.
    #[inline]
    pub(crate) fn ask<'x>(
        self,
        row_idx: usize,
        n_cols: usize,
        upcoming: impl FnOnce(usize) -> Option<(&'x [f32], usize)>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Self::Avx2(avx2) = self
            && let Some((rows, row)) = upcoming(row_idx + rows_ahead(n_cols))
        {
            avx2.ask(rows, row, n_cols);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (self, row_idx, n_cols, upcoming);
    }
}
