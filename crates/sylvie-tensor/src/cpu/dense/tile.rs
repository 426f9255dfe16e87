//! A tile of a product in registers, by the multiply-adds of processors that have AVX2 and FMA.
// Instructions of AVX2 and FMA are called where the processor has them.
#![allow(unsafe_code)]
// Elsewhere nothing of a tile is read, since there is none.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]

use super::panels::PANEL;
use crate::cpu::gather::LANES;

/// Rows of a tile: with the two registers of a panel, twelve of sixteen registers hold sums.
pub(super) const TILE_ROWS: usize = 6;
/// What a tile's sums begin with, and what is done to them in the end.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    /// Whether they begin with what is in their place.
    pub(super) adds: bool,
    /// Added in the end, a value for each column of the panel.
    pub(super) bias: Option<&'a [f32; PANEL]>,
    /// What rows are multiplied by after that.
    pub(super) factors: Option<&'a [f32]>,
}

/// Where a tile's sums are written: rows from `offset` on, `stride` values apart, `n_cols` columns of each.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) stride: usize,
    pub(super) n_cols: usize,
}

/// The right to call instructions of AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Fma(());

impl Fma {
    /// Where the processor has them.
    pub(super) fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return Some(Self(()));
        }
        None
    }

    /// `out (+)= a panel` for up to six rows of equally many values, a panel row for each of them.
    ///
    /// A sum is one chain of fused multiply-adds in the order of the inner dimension.
    ///
    /// # Panics
    /// If there are no rows or too many, fewer factors, or a row or a place in `out` is not there, or is wider than a panel.
    pub(super) fn tile(
        self,
        a: &[f32],
        (n_rows, a_stride): (usize, usize),
        panel: &[[f32; PANEL]],
        ends: Ends<'_>,
        out: &mut [f32],
        place: Place,
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            let a = fma::Rows { values: a, stride: a_stride };
            // SAFETY: a value of this type is made only where the processor has AVX2 and FMA.
            unsafe {
                match (n_rows, place.n_cols > LANES) {
                    (1, false) => fma::tile::<1, 1>(a, panel, ends, out, place),
                    (2, false) => fma::tile::<2, 1>(a, panel, ends, out, place),
                    (3, false) => fma::tile::<3, 1>(a, panel, ends, out, place),
                    (4, false) => fma::tile::<4, 1>(a, panel, ends, out, place),
                    (5, false) => fma::tile::<5, 1>(a, panel, ends, out, place),
                    (6, false) => fma::tile::<6, 1>(a, panel, ends, out, place),
                    (1, true) => fma::tile::<1, 2>(a, panel, ends, out, place),
                    (2, true) => fma::tile::<2, 2>(a, panel, ends, out, place),
                    (3, true) => fma::tile::<3, 2>(a, panel, ends, out, place),
                    (4, true) => fma::tile::<4, 2>(a, panel, ends, out, place),
                    (5, true) => fma::tile::<5, 2>(a, panel, ends, out, place),
                    (6, true) => fma::tile::<6, 2>(a, panel, ends, out, place),
                    _ => panic!("{n_rows} rows in a tile"),
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (a, n_rows, a_stride, panel, ends, out, place);
            unreachable!("a value of this type is made only where the processor has AVX2 and FMA");
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod fma {
    use core::arch::x86_64::*;

    use super::{Ends, LANES, PANEL, Place};

    /// Rows that begin `stride` values apart.
    #[derive(Clone, Copy)]
    pub(super) struct Rows<'a> {
        pub(super) values: &'a [f32],
        pub(super) stride: usize,
    }

    /// `V` registers of a panel's row.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn registers<const V: usize>(row: &[f32; PANEL]) -> [__m256; V] {
        let mut registers = [_mm256_setzero_ps(); V];
        for (register, values) in registers.iter_mut().zip(row.as_chunks::<LANES>().0) {
            *register = bytemuck::cast(*values);
        }
        registers
    }

    #[expect(
        clippy::needless_range_loop,
        reason = "lengths that are constants keep sums in registers"
    )]
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn tile<const R: usize, const V: usize>(
        a: Rows<'_>,
        panel: &[[f32; PANEL]],
        ends: Ends<'_>,
        out: &mut [f32],
        place: Place,
    ) {
        let n_inner = panel.len();
        let mut rows: [&[f32]; R] = [&[]; R];
        for r in 0..R {
            rows[r] = &a.values[r * a.stride..][..n_inner];
        }
        let mut sums = [[_mm256_setzero_ps(); V]; R];
        if ends.adds {
            for r in 0..R {
                let row = &out[place.offset + r * place.stride..][..place.n_cols];
                sums[r] = match row.first_chunk::<PANEL>() {
                    Some(kept) => registers::<V>(kept),
                    None => {
                        let mut kept = [0.0; PANEL];
                        kept[..row.len()].copy_from_slice(row);
                        registers::<V>(&kept)
                    }
                };
            }
        }
        for (p, row) in panel.iter().enumerate() {
            let row = registers::<V>(row);
            for r in 0..R {
                let value = _mm256_set1_ps(rows[r][p]);
                for v in 0..V {
                    sums[r][v] = _mm256_fmadd_ps(value, row[v], sums[r][v]);
                }
            }
        }
        for r in 0..R {
            if let Some(bias) = ends.bias {
                let bias = registers::<V>(bias);
                for v in 0..V {
                    sums[r][v] = _mm256_add_ps(sums[r][v], bias[v]);
                }
            }
            if let Some(factors) = ends.factors {
                let factor = _mm256_set1_ps(factors[r]);
                for v in 0..V {
                    sums[r][v] = _mm256_mul_ps(factor, sums[r][v]);
                }
            }
            let row = &mut out[place.offset + r * place.stride..][..place.n_cols];
            let values: [[f32; LANES]; V] = sums[r].map(bytemuck::cast);
            match row.len() == V * LANES {
                true => {
                    for (to, from) in row.as_chunks_mut::<LANES>().0.iter_mut().zip(values) {
                        *to = from;
                    }
                }
                false => row.copy_from_slice(&values.as_flattened()[..row.len()]),
            }
        }
    }
}
