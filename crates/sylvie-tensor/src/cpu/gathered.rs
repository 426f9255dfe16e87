//! What sums over neighbours gather: rows as they are, copies of them, or packed rows.

use sylvie_graph::Csr;

use super::aggregate::CpuAdjacency;
use super::bf16::Bf16Rows;
use super::gather::{LINE, Rows, add_gathered, add_gathered_scaled};
use super::kernels::add_scaled;
use super::row_wise::each_row;
use super::{CpuBackend, CpuMatrix, CpuPacked};
use crate::gathering::Gather;

/// Edges a row from which on rows are rounded to bf16: that reads 4 bytes a value and writes 2, and each edge
/// then gathers 2 less.
const ROUNDED_EDGES: usize = 4;
/// Edges a row from which on rows that begin anywhere in a cache line are copied first.
const ALIGNED_EDGES: usize = 16;

/// Rows that a sum over neighbours gathers, and their factors.
pub(super) enum Gathered<'a> {
    F32 {
        x: &'a CpuMatrix,
        factors: Option<&'a CpuMatrix>,
    },
    /// Rows times their factors that begin at cache lines, with zeros after them.
    Aligned(CpuMatrix),
    Bf16(Bf16Rows),
    Packed {
        x: &'a CpuPacked,
        factors: Option<&'a CpuMatrix>,
    },
}

impl<'a> Gathered<'a> {
    /// Rows of the block's columns.
    pub(super) fn columns(
        cpu: &CpuBackend,
        block: &CpuAdjacency,
        factors: Option<&'a CpuMatrix>,
        x: &'a CpuMatrix,
    ) -> Self {
        match is_rounded(cpu, block, x.n_rows()) {
            true => Self::Bf16(Bf16Rows::new((&cpu.threads, &cpu.pool), factors, x, None)),
            false => Self::exact(cpu, block, factors, x),
        }
    }

    /// Local rows with an edge in the block.
    pub(super) fn rows(cpu: &CpuBackend, block: &CpuAdjacency, dy: &'a CpuMatrix) -> Self {
        let listed = Some(block.rows.as_slice());
        match is_rounded(cpu, block, block.rows.len()) {
            true => Self::Bf16(Bf16Rows::new((&cpu.threads, &cpu.pool), None, dy, listed)),
            false => Self::exact(cpu, block, None, dy),
        }
    }

    fn exact(
        cpu: &CpuBackend,
        block: &CpuAdjacency,
        factors: Option<&'a CpuMatrix>,
        x: &'a CpuMatrix,
    ) -> Self {
        let (n_rows, width) = x.shape();
        let is_worth_it = block.forward.n_edges() >= ALIGNED_EDGES * n_rows;
        let Some(aligned_width) = aligned_width(width).filter(|_| is_worth_it) else {
            return Self::F32 { x, factors };
        };
        let mut aligned = CpuMatrix::to_assign(&cpu.pool, n_rows, aligned_width);
        each_row(&cpu.threads, &mut aligned, |row, values| {
            values.fill(0.0);
            match factors.map_or(1.0, |factors| factors.values()[row]) {
                // Such rows are left out, whatever they hold.
                0.0 => {}
                factor => add_scaled(factor, x.row(row), &mut values[..width]),
            }
        });
        Self::Aligned(aligned)
    }

    /// Room for one row's sums while they are added up.
    pub(super) fn scratch(&self) -> Vec<f32> {
        match self {
            Self::Aligned(x) => vec![0.0; x.n_cols()],
            _ => Vec::new(),
        }
    }

    /// Adds the rows that one row's edges lead to.
    pub(super) fn add(&self, edges: &Csr, row: usize, sums: &mut [f32], scratch: &mut [f32]) {
        let (indptr, columns) = (edges.indptr(), edges.indices());
        let edges = indptr[row] as usize..indptr[row + 1] as usize;
        match self {
            Self::Bf16(rows) => rows.add(columns, edges, sums),
            Self::Packed { x, factors } => x.add(columns, edges, *factors, sums),
            Self::Aligned(x) => {
                scratch[..sums.len()].copy_from_slice(sums);
                add_gathered(Rows { columns, x: x.values() }, edges, scratch);
                sums.copy_from_slice(&scratch[..sums.len()]);
            }
            Self::F32 { x, factors } => {
                let rows = Rows { columns, x: x.values() };
                match factors {
                    Some(factors) => add_gathered_scaled(rows, edges, factors.values(), sums),
                    None => add_gathered(rows, edges, sums),
                }
            }
        }
    }
}

/// Whether `n_rows` rows are rounded before a block's edges gather them.
fn is_rounded(cpu: &CpuBackend, block: &CpuAdjacency, n_rows: usize) -> bool {
    cpu.gather == Gather::Bf16 && block.forward.n_edges() >= ROUNDED_EDGES * n_rows
}

/// Columns with which rows of so many begin at cache lines, where fewer lines are gathered so, and few
/// more are filled.
fn aligned_width(width: usize) -> Option<usize> {
    let aligned = width.next_multiple_of(LINE);
    // Rows begin at all multiples of the largest power of two in their width.
    let step = 1 << width.trailing_zeros().min(LINE.ilog2());
    let touched = width + LINE - step;
    (10 * touched >= 11 * aligned && 10 * aligned <= 12 * width).then_some(aligned)
}
