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
    values: Vec<f32>,
    pool: Pool,
}

impl CpuMatrix {
    pub(super) fn zeros(pool: &Pool, n_rows: usize, n_cols: usize) -> Self {
        let n_values = n_values(n_rows, n_cols);
        let mut values = pool.take(n_values);
        values.clear();
        values.resize(n_values, 0.0);
        Self { n_rows, n_cols, values, pool: pool.clone() }
    }

    /// A matrix whose values are whatever the buffer held; in debug builds they are NaN, so that one that
    /// was not assigned is seen.
    pub(super) fn to_assign(pool: &Pool, n_rows: usize, n_cols: usize) -> Self {
        let n_values = n_values(n_rows, n_cols);
        let mut values = pool.take(n_values);
        if cfg!(debug_assertions) {
            values.clear();
            values.resize(n_values, f32::NAN);
        } else {
            values.resize(n_values, 0.0);
        }
        Self { n_rows, n_cols, values, pool: pool.clone() }
    }

    /// # Panics
    /// If there are not `n_rows * n_cols` values.
    pub(super) fn from_values(pool: &Pool, n_rows: usize, n_cols: usize, from: &[f32]) -> Self {
        let found = from.len();
        let is_whole = n_rows.checked_mul(n_cols) == Some(found);
        assert!(is_whole, "{found} values for a matrix of {n_rows} x {n_cols}");
        let mut values = pool.take(found);
        values.clear();
        values.extend_from_slice(from);
        Self { n_rows, n_cols, values, pool: pool.clone() }
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
        self.pool.give_back(std::mem::take(&mut self.values));
    }
}

impl Clone for CpuMatrix {
    fn clone(&self) -> Self {
        Self::from_values(&self.pool, self.n_rows, self.n_cols, &self.values)
    }
}

impl PartialEq for CpuMatrix {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.values == other.values
    }
}

impl fmt::Debug for CpuMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_rows, n_cols, values, .. } = self;
        let mut shown = f.debug_struct("CpuMatrix");
        shown.field("n_rows", n_rows).field("n_cols", n_cols).field("values", values).finish()
    }
}
