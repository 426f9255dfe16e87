//! Products of a sparse matrix, by rows and by columns.

use std::sync::Arc;

use sylvie_graph::SparseMatrix;

use super::CpuMatrix;
use super::kernels::add_products;
use super::pool::Pool;
use super::threads::{CHUNK_ROWS, Threads};
use crate::operands::Mode;

/// Columns a chunk of a transposed product: few, since columns are uneven.
const CHUNK_COLUMNS: usize = 16;

/// A sparse matrix that can be read by row and by column.
///
/// # Example
/// ```
/// use sylvie_graph::SparseMatrix;
/// use sylvie_tensor::{Backend, CpuBackend, CpuSparse, Mode};
///
/// let backend = CpuBackend::new(1);
/// let features = SparseMatrix::new(3, &[0, 1, 2], &[2, 0], &[2.0, 1.0])?;
/// let x: CpuSparse = backend.upload_sparse(&features);
/// let (w, mut y) = (backend.upload(3, 1, &[10.0, 20.0, 30.0]), backend.zeros(2, 1));
/// backend.sparse_matmul(&x, &w, Mode::Assign, &mut y);
/// assert_eq!(backend.download(&y), [60.0, 10.0]);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CpuSparse {
    pub(super) structure: Arc<Structure>,
    /// One row of all values.
    pub(super) values: CpuMatrix,
}

/// Where the values of a sparse matrix stand.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) n_rows: usize,
    pub(super) n_cols: usize,
    pub(super) indptr: Vec<u64>,
    pub(super) indices: Vec<u32>,
    /// Column offsets, then row and place in `values` of each value of a column.
    col_indptr: Vec<u64>,
    col_rows: Vec<u32>,
    col_places: Vec<u64>,
}

impl CpuSparse {
    pub(super) fn new(pool: &Pool, x: &SparseMatrix) -> Self {
        let (n_rows, n_cols) = (x.n_rows(), x.n_cols());
        let mut col_indptr = vec![0_u64; n_cols + 1];
        for &column in x.indices() {
            col_indptr[column as usize + 1] += 1;
        }
        for column in 0..n_cols {
            col_indptr[column + 1] += col_indptr[column];
        }
        let mut next = col_indptr.clone();
        let mut col_rows = vec![0; x.n_stored()];
        let mut col_places = vec![0; x.n_stored()];
        for row in 0..n_rows {
            for place in x.indptr()[row]..x.indptr()[row + 1] {
                let slot = &mut next[x.indices()[place as usize] as usize];
                col_rows[*slot as usize] = row as u32;
                col_places[*slot as usize] = place;
                *slot += 1;
            }
        }
        let (indptr, indices) = (x.indptr().to_vec(), x.indices().to_vec());
        let structure =
            Structure { n_rows, n_cols, indptr, indices, col_indptr, col_rows, col_places };
        let values = CpuMatrix::from_values(pool, 1, x.n_stored(), x.values());
        Self { structure: Arc::new(structure), values }
    }
}

pub(super) fn sparse_matmul(
    threads: &Threads,
    a: &CpuSparse,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    let s = &*a.structure;
    assert_eq!(s.n_cols, b.n_rows(), "inner dimensions of a product");
    assert_eq!((out.n_rows(), out.n_cols()), (s.n_rows, b.n_cols()), "shape of a product");
    let width = b.n_cols();
    threads.row_chunks(out.values_mut(), width, CHUNK_ROWS, |first, rows| {
        for (row, sums) in rows.chunks_exact_mut(width).enumerate() {
            if mode == Mode::Assign {
                sums.fill(0.0);
            }
            let row = first + row;
            let places = s.indptr[row] as usize..s.indptr[row + 1] as usize;
            add_products(&s.indices[places.clone()], &a.values.values()[places], b.values(), sums);
        }
    });
}

pub(super) fn sparse_matmul_tn(
    threads: &Threads,
    a: &CpuSparse,
    b: &CpuMatrix,
    mode: Mode,
    out: &mut CpuMatrix,
) {
    let s = &*a.structure;
    assert_eq!(s.n_rows, b.n_rows(), "inner dimensions of a product");
    assert_eq!((out.n_rows(), out.n_cols()), (s.n_cols, b.n_cols()), "shape of a product");
    let (stored, width) = (a.values.values(), b.n_cols());
    threads.row_chunks(out.values_mut(), width, CHUNK_COLUMNS, |first, rows| {
        let mut values = Vec::new();
        for (column, sums) in rows.chunks_exact_mut(width).enumerate() {
            if mode == Mode::Assign {
                sums.fill(0.0);
            }
            let column = first + column;
            let slots = s.col_indptr[column] as usize..s.col_indptr[column + 1] as usize;
            values.clear();
            values.extend(s.col_places[slots.clone()].iter().map(|&p| stored[p as usize]));
            add_products(&s.col_rows[slots], &values, b.values(), sums);
        }
    });
}
