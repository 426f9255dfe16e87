//! Sums over neighbours, block by block.
#![allow(unsafe_code)]

use sylvie_device::{Arg, Device, Memory};
use sylvie_graph::Block;
use sylvie_kernels::{AGGREGATE, AGGREGATE_TRANSPOSED};

use crate::matrix::upload;
use crate::{CudaMatrix, count, done};

/// The edges of one block on a device, by row and by column.
///
/// # Example
/// ```
/// use sylvie_cuda::{CudaAdjacency, CudaBackend, Staged};
/// use sylvie_graph::{Block, Csr};
/// use sylvie_tensor::Backend;
/// # sylvie_standins::install();
///
/// let backend = CudaBackend::<Staged>::open(0)?;
/// // Of two rows the second reads two columns.
/// let block = Block {
///     owner: 1,
///     column_ids: vec![6, 8],
///     column_degrees: vec![1, 1],
///     rows: vec![1],
///     edges: Csr::from_pairs(1, 2, &[(0, 0), (0, 1)])?,
/// };
/// let edges: CudaAdjacency = backend.upload_block(&block);
/// let (x, mut sums) = (backend.upload(2, 1, &[10.0, 20.0]), backend.zeros(2, 1));
/// backend.aggregate(&edges, None, &x, &mut sums);
/// assert_eq!(backend.download(&sums), [0.0, 30.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CudaAdjacency {
    /// Local rows with an edge here, ascending.
    pub(crate) rows: Memory,
    pub(crate) n_positions: usize,
    pub(crate) n_columns: usize,
    pub(crate) n_edges: usize,
    last_row: Option<u32>,
    /// By entry of `rows`: offsets, then columns.
    pub(crate) indptr: Memory,
    pub(crate) columns: Memory,
    /// By column: offsets, then the local rows that read it.
    pub(crate) column_indptr: Memory,
    pub(crate) readers: Memory,
    /// For each edge in row order, where it stands in column order.
    pub(crate) to_transposed: Memory,
}

impl CudaAdjacency {
    /// # Panics
    /// If the block's edges do not have one row an entry of its `rows`.
    pub(crate) fn new(device: &Device, block: &Block) -> Self {
        assert_eq!(block.rows.len(), block.edges.n_rows(), "rows of a block and of its edges");
        let transposed = block.edges.transpose();
        let mut next = transposed.indptr().to_vec();
        let mut to_transposed = Vec::with_capacity(block.edges.n_edges());
        for &column in block.edges.indices() {
            to_transposed.push(next[column as usize]);
            next[column as usize] += 1;
        }
        let places = transposed.indices().iter();
        let readers: Vec<u32> = places.map(|&place| block.rows[place as usize]).collect();
        Self {
            rows: upload(device, &block.rows),
            n_positions: block.rows.len(),
            n_columns: block.edges.n_cols(),
            n_edges: block.edges.n_edges(),
            last_row: block.rows.last().copied(),
            indptr: upload(device, block.edges.indptr()),
            columns: upload(device, block.edges.indices()),
            column_indptr: upload(device, transposed.indptr()),
            readers: upload(device, &readers),
            to_transposed: upload(device, &to_transposed),
        }
    }

    /// # Panics
    /// If an edge leads to a row that is not below `n_local`.
    pub(crate) fn assert_rows_below(&self, n_local: usize) {
        if let Some(last) = self.last_row {
            assert!((last as usize) < n_local, "a block with row {last} for {n_local} rows");
        }
    }
}

fn scale_arg(scale: Option<&CudaMatrix>, n_columns: usize) -> Arg<'_> {
    scale.map_or(Arg::Null, |scale| {
        assert_eq!(scale.shape(), (n_columns, 1), "shape of column factors");
        Arg::Read(&scale.memory)
    })
}

pub(crate) fn aggregate(
    block: &CudaAdjacency,
    column_scale: Option<&CudaMatrix>,
    x: &CudaMatrix,
    out: &mut CudaMatrix,
) {
    assert_eq!(block.n_columns, x.n_rows(), "columns of the block and rows gathered");
    assert_eq!(x.n_cols(), out.n_cols(), "widths of an aggregation");
    block.assert_rows_below(out.n_rows());
    let device = out.memory.device().clone();
    // SAFETY: columns lie below the rows of `x`, rows below those of `out` (asserted), and the block's lists
    // are those of one graph.
    let submitted = unsafe {
        device.launch(
            &AGGREGATE,
            (block.n_positions, x.n_cols()),
            &mut [
                Arg::Read(&block.indptr),
                Arg::Read(&block.columns),
                Arg::Read(&block.rows),
                scale_arg(column_scale, x.n_rows()),
                Arg::Read(&x.memory),
                Arg::Write(&mut out.memory),
                Arg::U32(count(block.n_positions)),
                Arg::U32(count(x.n_cols())),
            ],
        )
    };
    done(submitted);
}

pub(crate) fn aggregate_transposed(
    block: &CudaAdjacency,
    column_scale: Option<&CudaMatrix>,
    dy: &CudaMatrix,
    out: &mut CudaMatrix,
) {
    assert_eq!(block.n_columns, out.n_rows(), "columns of the block and rows of gradients");
    assert_eq!(dy.n_cols(), out.n_cols(), "widths of an aggregation");
    block.assert_rows_below(dy.n_rows());
    let device = out.memory.device().clone();
    let (n_columns, n_cols) = out.shape();
    // SAFETY: as `aggregate`, with readers below the rows of `dy`.
    let submitted = unsafe {
        device.launch(
            &AGGREGATE_TRANSPOSED,
            (n_columns, n_cols),
            &mut [
                Arg::Read(&block.column_indptr),
                Arg::Read(&block.readers),
                scale_arg(column_scale, n_columns),
                Arg::Read(&dy.memory),
                Arg::Write(&mut out.memory),
                Arg::U32(count(n_columns)),
                Arg::U32(count(n_cols)),
            ],
        )
    };
    done(submitted);
}
