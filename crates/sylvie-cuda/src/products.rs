//! Dense products by cuBLAS, sparse ones by a kernel.
#![allow(unsafe_code)]

use cudarc::cublas::result::{self, CublasError};
use cudarc::cublas::sys;
use sylvie_device::{Arg, CUstream, DeviceError, Memory};
use sylvie_kernels::SPARSE_PRODUCT;
use sylvie_tensor::Mode;

use crate::matrix::{CudaMatrix, CudaSparse};
use crate::{count, done};

/// cuBLAS on one stream.
pub(crate) struct Blas {
    handle: sys::cublasHandle_t,
}

// SAFETY: cuBLAS lets any thread use a handle, one at a time; it lies behind its stream's lock.
unsafe impl Send for Blas {}

fn during(call: &'static str, error: &CublasError) -> DeviceError {
    DeviceError::Call { call, reason: format!("{:?}", error.0) }
}

impl Blas {
    pub(crate) fn new(stream: CUstream) -> Result<Self, DeviceError> {
        let handle = result::create_handle().map_err(|error| during("cublasCreate", &error))?;
        let blas = Self { handle };
        // SAFETY: both handles are alive.
        unsafe { result::set_stream(blas.handle, stream.cast()) }
            .map_err(|error| during("cublasSetStream", &error))?;
        Ok(blas)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and destroyed once. What cuBLAS says of it helps nobody.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// A factor as cuBLAS sees it, which goes by columns: a row-major matrix is its own transposed.
#[derive(Clone, Copy)]
struct Factor<'a> {
    memory: &'a Memory,
    /// Columns of the row-major matrix.
    row_len: usize,
    operation: sys::cublasOperation_t,
}

impl<'a> Factor<'a> {
    fn plain(x: &'a CudaMatrix) -> Self {
        let operation = sys::cublasOperation_t::CUBLAS_OP_N;
        Self { memory: &x.memory, row_len: x.n_cols(), operation }
    }

    fn transposed(x: &'a CudaMatrix) -> Self {
        Self { operation: sys::cublasOperation_t::CUBLAS_OP_T, ..Self::plain(x) }
    }
}

/// `out (+)= left right`, the inner dimension being `n_inner`.
fn product(left: Factor<'_>, right: Factor<'_>, n_inner: usize, mode: Mode, out: &mut CudaMatrix) {
    let (n_rows, n_cols) = out.shape();
    if n_rows == 0 || n_cols == 0 {
        return;
    }
    if n_inner == 0 {
        if mode == Mode::Assign {
            out.fill_with_zeros();
        }
        return;
    }
    let size =
        |n: usize| i32::try_from(n).unwrap_or_else(|_| panic!("{n} rows, more than cuBLAS counts"));
    let (m, n, k) = (size(n_cols), size(n_rows), size(n_inner));
    let (lda, ldb) = (size(right.row_len), size(left.row_len));
    let (alpha, beta) = (1.0_f32, if mode == Mode::Add { 1.0_f32 } else { 0.0 });
    let device = out.memory.device().clone();
    // SAFETY: cuBLAS reads and writes matrices of the sizes that they have, which the callers have held
    // against each other: the transposed product is the product of the transposed factors, right to left.
    let submitted = unsafe {
        device.submit_with(
            Blas::new,
            &[right.memory, left.memory],
            &mut out.memory,
            |blas, factors, target| {
                let (a, b) = (factors[0] as *const f32, factors[1] as *const f32);
                let called = result::sgemm(
                    blas.handle,
                    right.operation,
                    left.operation,
                    m,
                    n,
                    k,
                    &raw const alpha,
                    a,
                    lda,
                    b,
                    ldb,
                    &raw const beta,
                    target as *mut f32,
                    m,
                );
                called.map_err(|error| during("cublasSgemm", &error))
            },
        )
    };
    done(submitted);
}

fn assert_shapes(inner: (usize, usize), expected: (usize, usize), out: &CudaMatrix) {
    assert_eq!(inner.0, inner.1, "inner dimensions of a product");
    assert_eq!(out.shape(), expected, "shape of a product");
}

pub(crate) fn matmul(a: &CudaMatrix, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
    assert_shapes((a.n_cols(), b.n_rows()), (a.n_rows(), b.n_cols()), out);
    product(Factor::plain(a), Factor::plain(b), a.n_cols(), mode, out);
}

pub(crate) fn matmul_tn(a: &CudaMatrix, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
    assert_shapes((a.n_rows(), b.n_rows()), (a.n_cols(), b.n_cols()), out);
    product(Factor::transposed(a), Factor::plain(b), a.n_rows(), mode, out);
}

pub(crate) fn matmul_nt(a: &CudaMatrix, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
    assert_shapes((a.n_cols(), b.n_cols()), (a.n_rows(), b.n_rows()), out);
    product(Factor::plain(a), Factor::transposed(b), a.n_cols(), mode, out);
}

pub(crate) fn sparse_matmul(a: &CudaSparse, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
    let s = &*a.structure;
    assert_shapes((s.n_cols, b.n_rows()), (s.n_rows, b.n_cols()), out);
    sparse(&s.indptr, &s.indices, None, (&a.values, b), mode, out);
}

pub(crate) fn sparse_matmul_tn(a: &CudaSparse, b: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
    let s = &*a.structure;
    assert_shapes((s.n_rows, b.n_rows()), (s.n_cols, b.n_cols()), out);
    sparse(&s.col_indptr, &s.col_rows, Some(&s.col_places), (&a.values, b), mode, out);
}

fn sparse(
    indptr: &Memory,
    columns: &Memory,
    places: Option<&Memory>,
    (values, b): (&Memory, &CudaMatrix),
    mode: Mode,
    out: &mut CudaMatrix,
) {
    let (n_rows, n_cols) = out.shape();
    let device = out.memory.device().clone();
    // SAFETY: the structure is of the matrix that it was made of, whose columns are rows of `b`; the shapes
    // have been held against each other.
    let submitted = unsafe {
        device.launch(
            &SPARSE_PRODUCT,
            (n_rows, n_cols),
            &mut [
                Arg::Read(indptr),
                Arg::Read(columns),
                places.map_or(Arg::Null, Arg::Read),
                Arg::Read(values),
                Arg::Read(&b.memory),
                Arg::Write(&mut out.memory),
                Arg::U32(count(n_rows)),
                Arg::U32(count(n_cols)),
                Arg::U32(u32::from(mode == Mode::Add)),
            ],
        )
    };
    done(submitted);
}
