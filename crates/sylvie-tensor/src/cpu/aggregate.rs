//! Sums over neighbours, block by block.

use sylvie_graph::{Block, Csr, DenseMatrix};

use super::sparse::add_scaled;
use super::threads::Threads;

/// Rows a chunk of gathering work: few, since hubs make rows uneven.
pub(super) const CHUNK_ROWS: usize = 128;

/// The edges of one block, by row and by column.
#[derive(Clone, Debug)]
pub struct CpuAdjacency {
    /// Local rows with an edge here, ascending.
    pub(super) rows: Vec<u32>,
    /// One row an entry of `rows`; columns of the block.
    pub(super) forward: Csr,
    /// One row a column of the block; columns are places in `rows`.
    pub(super) transposed: Csr,
    /// For each edge in row order, where it stands in column order.
    pub(super) to_transposed: Vec<u64>,
}

impl CpuAdjacency {
    pub(super) fn new(block: &Block) -> Self {
        let transposed = block.edges.transpose();
        let mut next = transposed.indptr().to_vec();
        let mut to_transposed = Vec::with_capacity(block.edges.n_edges());
        for &column in block.edges.indices() {
            to_transposed.push(next[column as usize]);
            next[column as usize] += 1;
        }
        let (rows, forward) = (block.rows.clone(), block.edges.clone());
        Self { rows, forward, transposed, to_transposed }
    }

    /// Positions in `rows` whose local row lies in `first..last`.
    pub(super) fn positions(&self, first: usize, last: usize) -> std::ops::Range<usize> {
        let at = |bound: usize| self.rows.partition_point(|&row| (row as usize) < bound);
        at(first)..at(last)
    }
}

pub(super) fn aggregate(
    threads: &Threads,
    block: &CpuAdjacency,
    column_scale: Option<&DenseMatrix>,
    x: &DenseMatrix,
    out: &mut DenseMatrix,
) {
    assert_eq!(block.forward.n_cols(), x.n_rows(), "columns of the block and rows gathered");
    assert_eq!(x.n_cols(), out.n_cols(), "widths of an aggregation");
    let width = x.n_cols();
    threads.row_chunks(out.values_mut(), width, CHUNK_ROWS, |first, sums| {
        for position in block.positions(first, first + sums.len() / width) {
            let offset = (block.rows[position] as usize - first) * width;
            let row_sums = &mut sums[offset..offset + width];
            add_rows(block.forward.row(position), |u| u, column_scale, x, row_sums);
        }
    });
}

pub(super) fn aggregate_transposed(
    threads: &Threads,
    block: &CpuAdjacency,
    column_scale: Option<&DenseMatrix>,
    dy: &DenseMatrix,
    out: &mut DenseMatrix,
) {
    assert_eq!(block.forward.n_cols(), out.n_rows(), "columns of the block and rows of gradients");
    assert_eq!(dy.n_cols(), out.n_cols(), "widths of an aggregation");
    let width = dy.n_cols();
    threads.row_chunks(out.values_mut(), width, CHUNK_ROWS, |first, sums| {
        let mut row_sums = vec![0.0; width];
        for (column, out_row) in sums.chunks_exact_mut(width).enumerate() {
            let readers = block.transposed.row(first + column);
            row_sums.fill(0.0);
            add_rows(readers, |position| block.rows[position as usize], None, dy, &mut row_sums);
            let factor = column_scale.map_or(1.0, |scale| scale.values()[first + column]);
            add_scaled(factor, &row_sums, out_row);
        }
    });
}

/// Adds the rows `row_of(index)` of `x` to `sums`, in the order of the indices.
fn add_rows(
    indices: &[u32],
    row_of: impl Fn(u32) -> u32,
    scale: Option<&DenseMatrix>,
    x: &DenseMatrix,
    sums: &mut [f32],
) {
    match scale {
        Some(scale) => {
            for &index in indices {
                let row = row_of(index) as usize;
                add_scaled(scale.values()[row], x.row(row), sums);
            }
        }
        None => {
            for &index in indices {
                let row = row_of(index) as usize;
                for (sum, &value) in sums.iter_mut().zip(x.row(row)) {
                    *sum += value;
                }
            }
        }
    }
}
