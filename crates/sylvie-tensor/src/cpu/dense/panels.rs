//! Rows times weights: weights lie in panels, packed once a product, and rows are read where they lie.
//!
//! Libraries pack both factors, which costs as much as reading the rows once more, and wait for memory at every first touch
//! of a row. Here the rows that come next are asked for while these are multiplied.

use super::View;
use super::tile::{Ends, Fma, Place, TILE_ROWS};
use crate::cpu::CpuMatrix;
use crate::cpu::gather::{LINE, prefetch};
use crate::cpu::pool::Pool;
use crate::operands::Mode;

/// Columns of a panel: two registers of AVX2.
pub(super) const PANEL: usize = 16;
/// Values of the inner dimension that a tile goes through at once: a panel of so many stays in the nearest cache.
const INNER: usize = 256;
/// Rows that are multiplied by one panel after the other: 128 columns of them stay in the nearest cache too.
const BLOCK_ROWS: usize = 8 * TILE_ROWS;
/// Rows that a thread takes at once.
pub(super) const CHUNK_ROWS: usize = 10 * BLOCK_ROWS;

/// What a product is added to, and what is done to it in the end: first the bias, then the factors.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// Whether it is added to what is there.
    pub(super) mode: Mode,
    /// A value for each column.
    pub(super) bias: Option<&'a [f32]>,
    /// A value for each row.
    pub(super) factors: Option<&'a [f32]>,
}

impl Around<'_> {
    /// The product alone.
    pub(super) fn nothing(mode: Mode) -> Self {
        Self { mode, bias: None, factors: None }
    }
}

/// Weights (`n_inner x n_cols`) in panels of sixteen columns, the last filled up with zeros.
pub(super) struct Panels {
    fma: Fma,
    /// A row of sixteen values for each panel and each row of the weights.
    values: CpuMatrix,
    n_inner: usize,
    n_cols: usize,
}

impl Panels {
    pub(super) fn new(fma: Fma, pool: &Pool, weights: View<'_>) -> Self {
        let View { n_rows: n_inner, n_cols, .. } = weights;
        let mut values = CpuMatrix::to_assign(pool, n_cols.div_ceil(PANEL) * n_inner, PANEL);
        for (at, row) in values.values_mut().as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            let (panel, inner) = (at / n_inner, at % n_inner);
            for (column, value) in (panel * PANEL..).zip(row) {
                *value = if column < n_cols { weights.value(inner, column) } else { 0.0 };
            }
        }
        Self { fma, values, n_inner, n_cols }
    }

    /// Rows `first..` of `a` times the weights, as many as `out` has.
    pub(super) fn multiply(&self, a: &[f32], first: usize, around: Around<'_>, out: &mut [f32]) {
        for (block, out) in out.chunks_mut(BLOCK_ROWS * self.n_cols).enumerate() {
            let first = first + block * BLOCK_ROWS;
            let factors = around.factors.map(|factors| &factors[first..]);
            self.multiply_block(a, first, Around { factors, ..around }, out);
        }
    }

    fn multiply_block(&self, a: &[f32], first: usize, around: Around<'_>, out: &mut [f32]) {
        let (n_inner, n_cols) = (self.n_inner, self.n_cols);
        let n_rows = out.len() / n_cols;
        let panels = self.values.values().as_chunks::<PANEL>().0;
        let n_panels = n_cols.div_ceil(PANEL);
        let n_tiles = n_rows.div_ceil(TILE_ROWS) * n_panels * n_inner.div_ceil(INNER).max(1);
        let mut ahead =
            Ahead::new((first + n_rows) * n_inner, out.len(), n_rows * n_inner, n_tiles);
        for inner in (0..n_inner.max(1)).step_by(INNER) {
            let n_values = INNER.min(n_inner - inner);
            let (is_first, is_last) = (inner == 0, inner + n_values == n_inner);
            for panel in 0..n_panels {
                let first_col = panel * PANEL;
                let width = PANEL.min(n_cols - first_col);
                let bias = around.bias.filter(|_| is_last).map(|bias| {
                    let mut values = [0.0; PANEL];
                    values[..width].copy_from_slice(&bias[first_col..first_col + width]);
                    values
                });
                let panel = &panels[panel * n_inner + inner..][..n_values];
                for tile in (0..n_rows).step_by(TILE_ROWS) {
                    ahead.ask(a, out);
                    let ends = Ends {
                        adds: around.mode == Mode::Add || !is_first,
                        bias: bias.as_ref(),
                        factors: around.factors.filter(|_| is_last).map(|factors| &factors[tile..]),
                    };
                    let a = &a[(first + tile) * n_inner + inner..];
                    let offset = tile * n_cols + first_col;
                    let place = Place { offset, stride: n_cols, n_cols: width };
                    let rows = (TILE_ROWS.min(n_rows - tile), n_inner);
                    self.fma.tile(a, rows, panel, ends, out, place);
                }
            }
        }
    }
}

/// Asks for the rows after a block's, and for their places in the product, some lines with each tile.
struct Ahead {
    next_row: usize,
    next_out: usize,
    lines_of_rows: usize,
    lines_of_out: usize,
}

impl Ahead {
    /// Of a block whose rows have `n_values` values, end at `next_row` of the rows and at `next_out` of the product, and
    /// take `n_tiles` tiles.
    fn new(next_row: usize, next_out: usize, n_values: usize, n_tiles: usize) -> Self {
        let lines = |n_values: usize| n_values.div_ceil(LINE).div_ceil(n_tiles);
        Self { next_row, next_out, lines_of_rows: lines(n_values), lines_of_out: lines(next_out) }
    }

    #[inline(always)]
    fn ask(&mut self, rows: &[f32], out: &[f32]) {
        for _ in 0..self.lines_of_rows {
            prefetch(rows, self.next_row);
            self.next_row += LINE;
        }
        for _ in 0..self.lines_of_out {
            prefetch(out, self.next_out);
            self.next_out += LINE;
        }
    }
}
