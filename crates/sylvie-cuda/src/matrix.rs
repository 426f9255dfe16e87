//! Matrices and lists on a device.

use std::sync::{Arc, OnceLock};

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use sylvie_device::{Device, Memory};
use sylvie_graph::SparseMatrix;

use crate::done;

/// A row-major matrix of f32 on a device. Its memory comes from the device's pool and goes back there.
#[derive(Debug)]
pub struct CudaMatrix {
    pub(crate) memory: Memory,
    n_rows: usize,
    n_cols: usize,
}

impl CudaMatrix {
    /// A matrix of whatever the memory held.
    pub(crate) fn new(device: &Device, n_rows: usize, n_cols: usize) -> Self {
        let n_bytes = n_rows.checked_mul(n_cols).and_then(|n| n.checked_mul(size_of::<f32>()));
        let n_bytes = n_bytes
            .unwrap_or_else(|| panic!("a matrix of {n_rows} x {n_cols} does not fit into memory"));
        Self { memory: done(device.allocate(n_bytes)), n_rows, n_cols }
    }

    pub(crate) fn zeros(device: &Device, n_rows: usize, n_cols: usize) -> Self {
        let mut matrix = Self::new(device, n_rows, n_cols);
        matrix.fill_with_zeros();
        matrix
    }

    pub(crate) fn fill_with_zeros(&mut self) {
        let device = self.memory.device().clone();
        done(device.fill(0, &mut self.memory));
    }

    /// # Panics
    /// If there are not `n_rows * n_cols` values.
    pub(crate) fn upload(device: &Device, n_rows: usize, n_cols: usize, values: &[f32]) -> Self {
        let found = values.len();
        let is_whole = n_rows.checked_mul(n_cols) == Some(found);
        assert!(is_whole, "{found} values for a matrix of {n_rows} x {n_cols}");
        Self { memory: done(device.upload(cast_slice(values))), n_rows, n_cols }
    }

    pub(crate) fn download(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.n_values()];
        done(self.memory.device().read(&self.memory, cast_slice_mut(&mut values)));
        values
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

    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.n_rows, self.n_cols)
    }

    pub(crate) fn n_values(&self) -> usize {
        self.n_rows * self.n_cols
    }
}

pub(crate) fn assert_same_shape(x: &CudaMatrix, y: &CudaMatrix) {
    assert_eq!(x.shape(), y.shape(), "shapes of two matrices");
}

pub(crate) fn assert_shape(x: &CudaMatrix, expected: (usize, usize), what: &str) {
    assert_eq!(x.shape(), expected, "shape of {what}");
}

/// A list of 32-bit numbers on a device, and on the host, where it is held against sizes.
#[derive(Debug)]
pub struct CudaIndex {
    pub(crate) memory: Memory,
    host: Vec<u32>,
    max: Option<u32>,
    /// Looked at when it first matters.
    is_distinct: OnceLock<bool>,
}

impl CudaIndex {
    pub(crate) fn new(device: &Device, values: &[u32]) -> Self {
        Self {
            memory: upload(device, values),
            host: values.to_vec(),
            max: values.iter().copied().max(),
            is_distinct: OnceLock::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.host.len()
    }

    pub(crate) fn host(&self) -> &[u32] {
        &self.host
    }

    /// # Panics
    /// If an entry is not below `bound`.
    pub(crate) fn assert_below(&self, bound: usize, what: &str) {
        if let Some(max) = self.max {
            assert!((max as usize) < bound, "{what}: entry {max} of a list is not below {bound}");
        }
    }

    pub(crate) fn is_distinct(&self) -> bool {
        *self.is_distinct.get_or_init(|| {
            if self.host.is_sorted_by(|a, b| a < b) {
                return true;
            }
            let mut sorted = self.host.clone();
            sorted.sort_unstable();
            sorted.is_sorted_by(|a, b| a < b)
        })
    }
}

pub(crate) fn upload<T: Pod>(device: &Device, values: &[T]) -> Memory {
    done(device.upload(cast_slice(values)))
}

/// A sparse matrix of f32 on a device, readable by row and by column.
///
/// # Example
/// ```
/// use sylvie_cuda::{CudaBackend, CudaSparse, Staged};
/// use sylvie_graph::SparseMatrix;
/// use sylvie_tensor::{Backend, Mode};
/// # sylvie_standins::install();
///
/// let backend = CudaBackend::<Staged>::open(0)?;
/// let features = SparseMatrix::new(3, &[0, 1, 2], &[2, 0], &[2.0, 1.0])?;
/// let x: CudaSparse = backend.upload_sparse(&features);
/// let (w, mut y) = (backend.upload(3, 1, &[10.0, 20.0, 30.0]), backend.zeros(2, 1));
/// backend.sparse_matmul(&x, &w, Mode::Assign, &mut y);
/// assert_eq!(backend.download(&y), [60.0, 10.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CudaSparse {
    pub(crate) structure: Arc<Structure>,
    /// One entry a stored value.
    pub(crate) values: Memory,
}

/// Where the values of a sparse matrix stand.
#[derive(Debug)]
pub(crate) struct Structure {
    pub(crate) n_rows: usize,
    pub(crate) n_cols: usize,
    pub(crate) indptr: Memory,
    pub(crate) indices: Memory,
    /// Column offsets, then row and place among the values of each value of a column.
    pub(crate) col_indptr: Memory,
    pub(crate) col_rows: Memory,
    pub(crate) col_places: Memory,
}

impl CudaSparse {
    pub(crate) fn new(device: &Device, x: &SparseMatrix) -> Self {
        let (n_rows, n_cols) = (x.n_rows(), x.n_cols());
        let mut col_indptr = vec![0_u64; n_cols + 1];
        for &column in x.indices() {
            col_indptr[column as usize + 1] += 1;
        }
        for column in 0..n_cols {
            col_indptr[column + 1] += col_indptr[column];
        }
        let mut next = col_indptr.clone();
        let mut col_rows = vec![0_u32; x.n_stored()];
        let mut col_places = vec![0_u64; x.n_stored()];
        for row in 0..n_rows {
            for place in x.indptr()[row]..x.indptr()[row + 1] {
                let slot = &mut next[x.indices()[place as usize] as usize];
                col_rows[*slot as usize] = row as u32;
                col_places[*slot as usize] = place;
                *slot += 1;
            }
        }
        let structure = Structure {
            n_rows,
            n_cols,
            indptr: upload(device, x.indptr()),
            indices: upload(device, x.indices()),
            col_indptr: upload(device, &col_indptr),
            col_rows: upload(device, &col_rows),
            col_places: upload(device, &col_places),
        };
        Self { structure: Arc::new(structure), values: upload(device, x.values()) }
    }
}
