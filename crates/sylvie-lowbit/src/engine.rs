//! Which implementation does the work. All give the same bytes.

#[cfg(target_arch = "x86_64")]
use crate::avx2::Avx2;

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
}
