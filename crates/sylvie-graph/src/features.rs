//! Node features, dense or sparse.

use rayon::prelude::*;
use sprs::CsMatI;

use crate::csr::{check_n_nodes, check_offsets};
use crate::error::GraphError;

/// A row-major matrix of f32.
///
/// # Example
/// ```
/// use sylvie_graph::DenseMatrix;
///
/// let mut matrix = DenseMatrix::new(3, 2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?;
/// matrix.values_mut()[0] = -1.0;
/// assert_eq!(matrix.row(0), [-1.0, 1.0]);
/// assert_eq!(matrix.gather_rows(&[2, 0]).values(), [4.0, 5.0, -1.0, 1.0]);
/// assert!(DenseMatrix::new(3, 2, vec![0.0; 5]).is_err());
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DenseMatrix {
    n_rows: usize,
    n_cols: usize,
    values: Vec<f32>,
}

impl DenseMatrix {
    /// Takes `n_rows * n_cols` values, row after row.
    ///
    /// # Errors
    /// [`GraphError::LengthMismatch`] if there are more or fewer.
    pub fn new(n_rows: usize, n_cols: usize, values: Vec<f32>) -> Result<Self, GraphError> {
        let expected = n_rows.saturating_mul(n_cols);
        if values.len() != expected {
            let (what, found) = ("matrix", values.len());
            return Err(GraphError::LengthMismatch { what, expected, found });
        }
        Ok(Self { n_rows, n_cols, values })
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// All values, row after row.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.n_cols..(row + 1) * self.n_cols]
    }

    /// The rows `rows`, in that order.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn gather_rows(&self, rows: &[u32]) -> Self {
        let mut values = Vec::with_capacity(rows.len() * self.n_cols);
        for &row in rows {
            values.extend_from_slice(self.row(row as usize));
        }
        Self { n_rows: rows.len(), n_cols: self.n_cols, values }
    }
}

/// A sparse matrix of f32 in compressed rows.
///
/// # Layout
/// `n_rows + 1` offsets of 64 bits; a 32-bit column and a value a non-zero, columns strictly
/// ascending in a row.
///
/// # Example
/// ```
/// use sylvie_graph::SparseMatrix;
///
/// let matrix = SparseMatrix::new(4, &[0, 2, 2], &[3, 0], &[1.0, 2.0])?;
/// assert_eq!(matrix.row(0), (&[0, 3][..], &[2.0, 1.0][..]));
/// assert_eq!(matrix.to_dense().row(0), [2.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), sylvie_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix {
    matrix: CsMatI<f32, u32, u64>,
}

impl SparseMatrix {
    /// Takes rows whose columns may be in any order; values of a repeated column are added.
    ///
    /// # Errors
    /// Offsets that do not fit, a column not below `n_cols`, as many columns as values not given.
    pub fn new(
        n_cols: usize,
        indptr: &[u64],
        indices: &[u32],
        values: &[f32],
    ) -> Result<Self, GraphError> {
        if values.len() != indices.len() {
            let (what, expected, found) = ("sparse values", indices.len(), values.len());
            return Err(GraphError::LengthMismatch { what, expected, found });
        }
        check_offsets(indptr, indices.len())?;
        check_n_nodes(indptr.len() - 1)?;
        check_n_nodes(n_cols)?;
        if let Some(position) = indices.iter().position(|&c| c as usize >= n_cols) {
            let index = u64::from(indices[position]);
            return Err(GraphError::IndexOutOfRange { position, index, bound: n_cols });
        }
        let mut builder = SparseRows::new(n_cols);
        let mut row = Vec::new();
        for ends in indptr.windows(2) {
            let (begin, end) = (ends[0] as usize, ends[1] as usize);
            row.clear();
            row.extend(indices[begin..end].iter().copied().zip(values[begin..end].iter().copied()));
            row.sort_by_key(|&(column, _)| column);
            builder.push_sorted(&row);
        }
        Ok(builder.finish())
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.matrix.rows()
    }

    /// Number of columns.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        self.matrix.cols()
    }

    /// Number of stored values.
    #[must_use]
    pub fn n_stored(&self) -> usize {
        self.matrix.nnz()
    }

    /// Row offsets, `n_rows + 1` of them.
    #[must_use]
    pub fn indptr(&self) -> &[u64] {
        self.matrix.indptr().into_raw_storage()
    }

    /// Columns of all rows.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        self.matrix.indices()
    }

    /// Values of all rows.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        self.matrix.data()
    }

    /// All values, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.matrix.data_mut()
    }

    /// Columns and values of one row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = self.indptr()[row] as usize..self.indptr()[row + 1] as usize;
        (&self.indices()[range.clone()], &self.values()[range])
    }

    /// The rows `rows`, in that order.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn gather_rows(&self, rows: &[u32]) -> Self {
        let mut indptr = Vec::with_capacity(rows.len() + 1);
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        indptr.push(0);
        for &row in rows {
            let (row_indices, row_values) = self.row(row as usize);
            indices.extend_from_slice(row_indices);
            values.extend_from_slice(row_values);
            indptr.push(indices.len() as u64);
        }
        Self { matrix: CsMatI::new((rows.len(), self.n_cols()), indptr, indices, values) }
    }

    /// The same matrix with every zero written out.
    #[must_use]
    pub fn to_dense(&self) -> DenseMatrix {
        let n_cols = self.n_cols();
        let mut values = vec![0.0; self.n_rows() * n_cols];
        for row in 0..self.n_rows() {
            let (columns, row_values) = self.row(row);
            for (&column, &value) in columns.iter().zip(row_values) {
                values[row * n_cols + column as usize] = value;
            }
        }
        DenseMatrix { n_rows: self.n_rows(), n_cols, values }
    }
}

/// Collects a sparse matrix row by row.
struct SparseRows {
    n_cols: usize,
    indptr: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl SparseRows {
    fn new(n_cols: usize) -> Self {
        Self { n_cols, indptr: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Appends a row whose columns ascend; values of equal columns are added.
    fn push_sorted(&mut self, row: &[(u32, f32)]) {
        let row_start = self.indices.len();
        for &(column, value) in row {
            if self.indices.len() > row_start && self.indices.last() == Some(&column) {
                let last = self.values.len() - 1;
                self.values[last] += value;
            } else {
                self.indices.push(column);
                self.values.push(value);
            }
        }
        self.indptr.push(self.indices.len() as u64);
    }

    fn finish(self) -> SparseMatrix {
        let shape = (self.indptr.len() - 1, self.n_cols);
        SparseMatrix { matrix: CsMatI::new(shape, self.indptr, self.indices, self.values) }
    }
}

/// One row of features a node.
///
/// # Example
/// ```
/// use sylvie_graph::{DenseMatrix, Features, GraphError, SparseMatrix};
///
/// let dense = Features::Dense(DenseMatrix::new(2, 3, vec![0.0, 0.0, 1.0, f32::NAN, 0.0, 0.0])?);
/// let sparse = Features::Sparse(SparseMatrix::new(3, &[0, 1, 1], &[2], &[1.0])?);
/// assert_eq!((dense.n_rows(), dense.n_cols()), (sparse.n_rows(), sparse.n_cols()));
/// assert_eq!(dense.check_finite(), Err(GraphError::NotFinite { row: 1, column: 0 }));
/// assert_eq!(sparse.gather_rows(&[1, 0, 0]).n_rows(), 3);
/// # Ok::<(), GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Every value stored.
    Dense(DenseMatrix),
    /// Non-zeros stored; they stay so through the first product and the kept aggregate.
    Sparse(SparseMatrix),
}

impl Features {
    /// Number of nodes.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        match self {
            Self::Dense(matrix) => matrix.n_rows(),
            Self::Sparse(matrix) => matrix.n_rows(),
        }
    }

    /// Number of features a node.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        match self {
            Self::Dense(matrix) => matrix.n_cols(),
            Self::Sparse(matrix) => matrix.n_cols(),
        }
    }

    /// The features of the nodes `rows`, in that order.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn gather_rows(&self, rows: &[u32]) -> Self {
        match self {
            Self::Dense(matrix) => Self::Dense(matrix.gather_rows(rows)),
            Self::Sparse(matrix) => Self::Sparse(matrix.gather_rows(rows)),
        }
    }

    /// Checks that every stored value is a finite number.
    ///
    /// # Errors
    /// [`GraphError::NotFinite`] with the first that is not.
    pub fn check_finite(&self) -> Result<(), GraphError> {
        match self {
            Self::Dense(matrix) => first_not_finite(matrix.values()).map_or(Ok(()), |at| {
                let (row, column) = (at / matrix.n_cols(), at % matrix.n_cols());
                Err(GraphError::NotFinite { row, column })
            }),
            Self::Sparse(matrix) => first_not_finite(matrix.values()).map_or(Ok(()), |at| {
                let row = matrix.indptr().partition_point(|&end| end <= at as u64) - 1;
                Err(GraphError::NotFinite { row, column: matrix.indices()[at] as usize })
            }),
        }
    }
}

/// Position of the first value that is NaN or infinite, looked for by all threads.
fn first_not_finite(values: &[f32]) -> Option<usize> {
    const PIECE: usize = 1 << 14;
    // Whole pieces are looked at without leaving early, which vector instructions can do.
    let is_bad = |piece: &[f32]| !piece.iter().fold(true, |all, value| all & value.is_finite());
    let piece = values.par_chunks(PIECE).position_first(is_bad)?;
    let begin = piece * PIECE;
    values[begin..].iter().position(|value| !value.is_finite()).map(|at| begin + at)
}
