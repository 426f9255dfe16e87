//! Sums over neighbours, block by block.

use sylvie_graph::{Block, Csr};

use super::CpuMatrix;
use super::kernels::{add_products, add_rows, add_scaled};
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
    /// One row a column of the block; columns are local rows.
    pub(super) transposed: Csr,
    /// For each edge in row order, where it stands in column order.
    pub(super) to_transposed: Vec<u64>,
}

impl CpuAdjacency {
    /// # Panics
    /// If the block's edges do not have one row an entry of its `rows`.
    pub(super) fn new(block: &Block) -> Self {
        assert_eq!(block.rows.len(), block.edges.n_rows(), "rows of a block and of its edges");
        let transposed = block.edges.transpose();
        let mut next = transposed.indptr().to_vec();
        let mut to_transposed = Vec::with_capacity(block.edges.n_edges());
        for &column in block.edges.indices() {
            to_transposed.push(next[column as usize]);
            next[column as usize] += 1;
        }
        let readers = transposed.indices().iter().map(|&place| block.rows[place as usize]);
        let n_rows = block.rows.last().map_or(0, |&last| last as usize + 1);
        let transposed = Csr::new(n_rows, transposed.indptr().to_vec(), readers.collect());
        let transposed = transposed.unwrap_or_else(|e| panic!("the rows of a block ascend: {e}"));
        let (rows, forward) = (block.rows.clone(), block.edges.clone());
        Self { rows, forward, transposed, to_transposed }
    }

    /// # Panics
    /// If an edge leads to a row that is not below `n_local`.
    pub(super) fn assert_rows_below(&self, n_local: usize) {
        if let Some(&last) = self.rows.last() {
            assert!((last as usize) < n_local, "a block with row {last} for {n_local} rows");
        }
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
    column_scale: Option<&CpuMatrix>,
    x: &CpuMatrix,
    out: &mut CpuMatrix,
) {
    assert_eq!(block.forward.n_cols(), x.n_rows(), "columns of the block and rows gathered");
    assert_eq!(x.n_cols(), out.n_cols(), "widths of an aggregation");
    assert_scale(column_scale, x.n_rows());
    block.assert_rows_below(out.n_rows());
    let width = x.n_cols();
    threads.row_chunks(out.values_mut(), width, CHUNK_ROWS, |first, sums| {
        let (mut kept, mut factors) = (Vec::new(), Vec::new());
        for position in block.positions(first, first + sums.len() / width) {
            let offset = (block.rows[position] as usize - first) * width;
            let row_sums = &mut sums[offset..offset + width];
            let columns = block.forward.row(position);
            match column_scale {
                Some(scale) => {
                    kept.clear();
                    factors.clear();
                    for &column in columns {
                        let factor = scale.values()[column as usize];
                        if factor != 0.0 {
                            kept.push(column);
                            factors.push(factor);
                        }
                    }
                    add_products(&kept, &factors, x.values(), row_sums);
                }
                None => add_rows(columns, x.values(), row_sums),
            }
        }
    });
}

pub(super) fn aggregate_transposed(
    threads: &Threads,
    block: &CpuAdjacency,
    column_scale: Option<&CpuMatrix>,
    dy: &CpuMatrix,
    out: &mut CpuMatrix,
) {
    assert_eq!(block.forward.n_cols(), out.n_rows(), "columns of the block and rows of gradients");
    assert_eq!(dy.n_cols(), out.n_cols(), "widths of an aggregation");
    assert_scale(column_scale, out.n_rows());
    block.assert_rows_below(dy.n_rows());
    let width = dy.n_cols();
    threads.row_chunks(out.values_mut(), width, CHUNK_ROWS, |first, sums| {
        let mut row_sums = vec![0.0; width];
        for (column, out_row) in sums.chunks_exact_mut(width).enumerate() {
            let factor = column_scale.map_or(1.0, |scale| scale.values()[first + column]);
            if factor == 0.0 {
                continue;
            }
            let readers = block.transposed.row(first + column);
            row_sums.fill(0.0);
            add_rows(readers, dy.values(), &mut row_sums);
            add_scaled(factor, &row_sums, out_row);
        }
    });
}

fn assert_scale(column_scale: Option<&CpuMatrix>, n_columns: usize) {
    if let Some(scale) = column_scale {
        assert_eq!((scale.n_rows(), scale.n_cols()), (n_columns, 1), "shape of column factors");
    }
}
