//! The CPU backend's matrix.

use std::fmt;

use super::pool::Pool;

/// A row-major matrix of f32 on the host.
///
/// Its buffer comes from its backend's pool and goes back there when the matrix is dropped, on whatever
/// thread that is.
pub struct CpuMatrix {
    n_rows: usize,
    n_cols: usize,
    /// The values begin at a cache line, at `offset`.
    buffer: Vec<f32>,
    offset: usize,
    pool: Pool,
}

/// Bytes of a cache line: rows of a matrix that has whole lines of columns share none.
const LINE_BYTES: usize = 64;
/// Values that a buffer has besides those of its matrix, so that these can begin at a line.
const N_SPARE: usize = LINE_BYTES / size_of::<f32>() - 1;

impl CpuMatrix {
    pub(super) fn zeros(pool: &Pool, n_rows: usize, n_cols: usize) -> Self {
        let mut x = Self::to_assign(pool, n_rows, n_cols);
        x.values_mut().fill(0.0);
        x
    }

    /// A matrix whose values are whatever the buffer held; in debug builds they are NaN, so that one that
    /// was not assigned is seen.
    pub(super) fn to_assign(pool: &Pool, n_rows: usize, n_cols: usize) -> Self {
        let length = n_values(n_rows, n_cols) + N_SPARE;
        let mut buffer = pool.take(length);
        if cfg!(debug_assertions) {
            buffer.clear();
        }
        buffer.resize(length, if cfg!(debug_assertions) { f32::NAN } else { 0.0 });
        // An address that cannot be aligned would give a length beyond the buffer.
        let offset = buffer.as_ptr().align_offset(LINE_BYTES).min(N_SPARE);
        Self { n_rows, n_cols, buffer, offset, pool: pool.clone() }
    }

    /// # Panics
    /// If there are not `n_rows * n_cols` values.
    pub(super) fn from_values(pool: &Pool, n_rows: usize, n_cols: usize, from: &[f32]) -> Self {
        let found = from.len();
        let is_whole = n_rows.checked_mul(n_cols) == Some(found);
        assert!(is_whole, "{found} values for a matrix of {n_rows} x {n_cols}");
        let mut x = Self::to_assign(pool, n_rows, n_cols);
        x.values_mut().copy_from_slice(from);
        x
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
        &self.buffer[self.offset..self.offset + self.n_rows * self.n_cols]
    }

    /// All values, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        let n_values = self.n_rows * self.n_cols;
        &mut self.buffer[self.offset..self.offset + n_values]
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values()[row * self.n_cols..(row + 1) * self.n_cols]
    }

    pub(super) fn shape(&self) -> (usize, usize) {
        (self.n_rows, self.n_cols)
    }
}

/// # Panics
/// If the number does not fit into `usize`.
fn n_values(n_rows: usize, n_cols: usize) -> usize {
    let n_values = n_rows.checked_mul(n_cols);
    n_values.unwrap_or_else(|| panic!("a matrix of {n_rows} x {n_cols} does not fit into memory"))
}

impl Drop for CpuMatrix {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.buffer));
    }
}

impl Clone for CpuMatrix {
    fn clone(&self) -> Self {
        Self::from_values(&self.pool, self.n_rows, self.n_cols, self.values())
    }
}

impl PartialEq for CpuMatrix {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.values() == other.values()
    }
}

impl fmt::Debug for CpuMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { n_rows, n_cols, .. }, values) = (self, self.values());
        let mut shown = f.debug_struct("CpuMatrix");
        shown.field("n_rows", n_rows).field("n_cols", n_cols).field("values", &values).finish()
    }
}
