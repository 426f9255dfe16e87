//! Sums over neighbours, block by block.

use std::sync::{Arc, OnceLock};

use sylvie_graph::{Block, Csr};

use super::gathered::Gathered;
use super::kernels::{add_scaled, scale};
use super::{CpuBackend, CpuMatrix, CpuPacked, assert_same_shape};
use crate::operands::SumFactors;

/// Rows a chunk of gathering work: few, since hubs make rows uneven.
pub(super) const CHUNK_ROWS: usize = 128;
/// Edges from which on a chunk of aggregation is full, and rows from which on it is.
const CHUNK_EDGES: usize = 8192;
const CHUNK_MAX_ROWS: u32 = 512;

/// The edges of one block, by row and by column.
#[derive(Clone, Debug)]
pub struct CpuAdjacency {
    /// Local rows with an edge here, ascending.
    pub(super) rows: Vec<u32>,
    /// One row an entry of `rows`; columns of the block.
    pub(super) forward: Arc<Csr>,
    /// One row a column of the block; columns are local rows. The same as `forward` where both are equal.
    pub(super) transposed: Arc<Csr>,
    /// For each edge in row order, where it stands in column order; made when it is first asked for.
    to_transposed: OnceLock<Places>,
    /// First local rows of chunks with about as many edges.
    row_starts: Vec<u32>,
    /// First columns of chunks with about as many edges.
    column_starts: Vec<u32>,
}

/// Places of edges, as short as their number allows.
#[derive(Clone, Debug)]
pub(super) enum Places {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

impl CpuAdjacency {
    /// # Panics
    /// If the block's edges do not have one row an entry of its `rows`.
    pub(super) fn new(block: &Block) -> Self {
        assert_eq!(block.rows.len(), block.edges.n_rows(), "rows of a block and of its edges");
        let transposed = block.edges.transpose();
        let readers = transposed.indices().iter().map(|&place| block.rows[place as usize]);
        let n_rows = block.rows.last().map_or(0, |&last| last as usize + 1);
        let transposed = Csr::new(n_rows, transposed.indptr().to_vec(), readers.collect());
        let transposed = transposed.unwrap_or_else(|e| panic!("the rows of a block ascend: {e}"));
        let (rows, forward) = (block.rows.clone(), Arc::new(block.edges.clone()));
        let columns: Vec<u32> = (0..transposed.n_rows() as u32).collect();
        let row_starts = chunk_starts(&rows, forward.indptr());
        let column_starts = chunk_starts(&columns, transposed.indptr());
        let is_symmetric = *forward == transposed;
        let transposed = if is_symmetric { Arc::clone(&forward) } else { Arc::new(transposed) };
        let to_transposed = OnceLock::new();
        Self { rows, forward, transposed, to_transposed, row_starts, column_starts }
    }

    /// For each edge in row order, where it stands in column order.
    pub(super) fn to_transposed(&self) -> &Places {
        self.to_transposed.get_or_init(|| {
            let mut next = self.transposed.indptr().to_vec();
            let edge = |&column: &u32| {
                let place = &mut next[column as usize];
                *place += 1;
                *place - 1
            };
            let places = self.forward.indices().iter().map(edge);
            match u32::try_from(self.forward.n_edges()) {
                Ok(_) => Places::Short(places.map(|place| place as u32).collect()),
                Err(_) => Places::Long(places.collect()),
            }
        })
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

/// First rows of chunks of about [`CHUNK_EDGES`] edges and at most [`CHUNK_MAX_ROWS`] rows with edges.
fn chunk_starts(rows: &[u32], indptr: &[u64]) -> Vec<u32> {
    let mut starts = vec![0];
    let (mut n_edges, mut n_rows) = (0, 0);
    for (&row, edges) in rows.iter().zip(indptr.windows(2)) {
        if n_edges >= CHUNK_EDGES as u64 || n_rows >= CHUNK_MAX_ROWS {
            starts.push(row);
            (n_edges, n_rows) = (0, 0);
        }
        n_edges += edges[1] - edges[0];
        n_rows += 1;
    }
    starts
}

pub(super) fn aggregate(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    column_scale: Option<&CpuMatrix>,
    x: &CpuMatrix,
    out: &mut CpuMatrix,
) {
    assert_eq!(block.forward.n_cols(), x.n_rows(), "columns of the block and rows gathered");
    assert_eq!(x.n_cols(), out.n_cols(), "widths of an aggregation");
    assert_factors(column_scale, x.n_rows());
    add_columns(cpu, block, &Gathered::columns(cpu, block, column_scale, x), out);
}

pub(super) fn aggregate_packed(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    column_scale: Option<&CpuMatrix>,
    x: &CpuPacked,
    out: &mut CpuMatrix,
) {
    assert_eq!(block.forward.n_cols(), x.n_rows(), "columns of the block and rows gathered");
    assert_eq!(x.n_cols(), out.n_cols(), "widths of an aggregation");
    assert_factors(column_scale, x.n_rows());
    add_columns(cpu, block, &Gathered::Packed { x, factors: column_scale }, out);
}

/// Adds the rows that the block's edges lead to.
fn add_columns(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    gathered: &Gathered<'_>,
    out: &mut CpuMatrix,
) {
    block.assert_rows_below(out.n_rows());
    let width = out.n_cols();
    cpu.threads.uneven_chunks(out.values_mut(), width, &block.row_starts, |first, sums| {
        let mut scratch = gathered.scratch();
        for position in block.positions(first, first + sums.len() / width) {
            let offset = (block.rows[position] as usize - first) * width;
            let sums = &mut sums[offset..offset + width];
            gathered.add(&block.forward, position, sums, &mut scratch);
        }
    });
}

pub(super) fn aggregated(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    factors: SumFactors<'_, CpuMatrix>,
    x: &CpuMatrix,
    n_local: usize,
) -> CpuMatrix {
    assert_eq!(block.forward.n_cols(), x.n_rows(), "columns of the block and rows gathered");
    assert_factors(factors.column, x.n_rows());
    assert_factors(factors.own, n_local);
    assert_factors(factors.row, n_local);
    if factors.own.is_some() {
        assert_eq!(x.n_rows(), n_local, "rows gathered and own rows");
    }
    block.assert_rows_below(n_local);
    let width = x.n_cols();
    let gathered = Gathered::columns(cpu, block, factors.column, x);
    let mut out = CpuMatrix::to_assign(&cpu.pool, n_local, width);
    cpu.threads.uneven_chunks(out.values_mut(), width, &block.row_starts, |first, sums| {
        let mut scratch = gathered.scratch();
        let mut positions = block.positions(first, first + sums.len() / width).peekable();
        for (row, sums) in (first..).zip(sums.chunks_exact_mut(width)) {
            sums.fill(0.0);
            if let Some(own) = factors.own {
                add_scaled(own.values()[row], x.row(row), sums);
            }
            if let Some(position) = positions.next_if(|&at| block.rows[at] as usize == row) {
                gathered.add(&block.forward, position, sums, &mut scratch);
            }
            if let Some(factors) = factors.row {
                scale(factors.values()[row], sums);
            }
        }
    });
    out
}

pub(super) fn aggregate_transposed(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    column_scale: Option<&CpuMatrix>,
    dy: &CpuMatrix,
    out: &mut CpuMatrix,
) {
    assert_eq!(block.forward.n_cols(), out.n_rows(), "columns of the block and rows of gradients");
    assert_eq!(dy.n_cols(), out.n_cols(), "widths of an aggregation");
    assert_factors(column_scale, out.n_rows());
    block.assert_rows_below(dy.n_rows());
    let width = dy.n_cols();
    let gathered = Gathered::rows(cpu, block, dy);
    cpu.threads.uneven_chunks(out.values_mut(), width, &block.column_starts, |first, sums| {
        let (mut row_sums, mut scratch) = (vec![0.0; width], gathered.scratch());
        for (column, out_row) in (first..).zip(sums.chunks_exact_mut(width)) {
            let factor = column_scale.map_or(1.0, |scale| scale.values()[column]);
            if factor == 0.0 {
                continue;
            }
            row_sums.fill(0.0);
            gathered.add(&block.transposed, column, &mut row_sums, &mut scratch);
            add_scaled(factor, &row_sums, out_row);
        }
    });
}

pub(super) fn aggregated_transposed(
    cpu: &CpuBackend,
    block: &CpuAdjacency,
    factors: SumFactors<'_, CpuMatrix>,
    dy: &CpuMatrix,
    n_columns: usize,
) -> CpuMatrix {
    let width = dy.n_cols();
    assert_eq!(block.forward.n_cols(), n_columns, "columns of the block and rows of gradients");
    assert_factors(factors.column, n_columns);
    assert_factors(factors.own, n_columns);
    assert!(factors.row.is_none(), "factors of rows in a transposed sum, which has none");
    let mut out = CpuMatrix::to_assign(&cpu.pool, n_columns, width);
    if factors.own.is_some() {
        assert_same_shape(dy, &out);
    }
    block.assert_rows_below(dy.n_rows());
    let gathered = Gathered::rows(cpu, block, dy);
    cpu.threads.uneven_chunks(out.values_mut(), width, &block.column_starts, |first, sums| {
        let mut scratch = gathered.scratch();
        for (column, sums) in (first..).zip(sums.chunks_exact_mut(width)) {
            sums.fill(0.0);
            let factor = factors.column.map_or(1.0, |scale| scale.values()[column]);
            if factor != 0.0 {
                gathered.add(&block.transposed, column, sums, &mut scratch);
                scale(factor, sums);
            }
            if let Some(own) = factors.own {
                add_scaled(own.values()[column], dy.row(column), sums);
            }
        }
    });
    out
}

fn assert_factors(factors: Option<&CpuMatrix>, n_rows: usize) {
    if let Some(factors) = factors {
        assert_eq!((factors.n_rows(), factors.n_cols()), (n_rows, 1), "shape of factors");
    }
}
