//! Libraries of dense products, each called on the calling thread alone.
// Their products take pointers.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};

use anyhow::{Context, Result};

/// A row-major factor, as it lies or transposed.
#[derive(Clone, Copy)]
pub(super) struct Factor<'a> {
    values: &'a [f32],
    /// Of the factor, transposed if it is.
    n_rows: usize,
    n_cols: usize,
    is_transposed: bool,
}

impl<'a> Factor<'a> {
    /// The whole of `values`, whose rows have `n_cols` values.
    pub(super) fn new(values: &'a [f32], n_cols: usize) -> Self {
        assert!(values.len().is_multiple_of(n_cols), "{} values in rows of {n_cols}", values.len());
        Self { values, n_rows: values.len() / n_cols, n_cols, is_transposed: false }
    }

    pub(super) fn transposed(self) -> Self {
        let (n_rows, n_cols) = (self.n_cols, self.n_rows);
        Self { n_rows, n_cols, is_transposed: !self.is_transposed, ..self }
    }

    /// Values in a row as it lies in memory.
    fn stride(self) -> usize {
        if self.is_transposed { self.n_rows } else { self.n_cols }
    }

    /// Values from one row to the next, and from one column to the next.
    fn strides(self) -> (isize, isize) {
        let stride = self.stride() as isize;
        if self.is_transposed { (1, stride) } else { (stride, 1) }
    }
}

/// A library.
pub(super) enum Library {
    Gemm,
    MatrixMultiply,
    #[cfg(feature = "faer")]
    Faer,
    Blas(Blas),
}

impl Library {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Gemm => "gemm".to_owned(),
            Self::MatrixMultiply => "matrixmultiply".to_owned(),
            #[cfg(feature = "faer")]
            Self::Faer => "faer".to_owned(),
            Self::Blas(blas) => blas.name.clone(),
        }
    }

    /// `c = a b`; `c` is row-major.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub(super) fn product(&self, a: Factor<'_>, b: Factor<'_>, c: &mut [f32]) {
        assert_eq!(a.n_cols, b.n_rows, "inner dimensions of a product");
        assert_eq!(c.len(), a.n_rows * b.n_cols, "length of a product");
        match self {
            Self::Gemm => by_gemm(a, b, c),
            Self::MatrixMultiply => by_matrixmultiply(a, b, c),
            #[cfg(feature = "faer")]
            Self::Faer => by_faer(a, b, c),
            Self::Blas(blas) => blas.product(a, b, c),
        }
    }
}

fn by_gemm(a: Factor<'_>, b: Factor<'_>, c: &mut [f32]) {
    let ((a_rows, a_cols), (b_rows, b_cols)) = (a.strides(), b.strides());
    // SAFETY: a factor's strides stay inside its values, and `c` has a value for each row and column.
    unsafe {
        gemm::gemm(
            a.n_rows,
            b.n_cols,
            a.n_cols,
            c.as_mut_ptr(),
            1,
            b.n_cols as isize,
            false,
            a.values.as_ptr(),
            a_cols,
            a_rows,
            b.values.as_ptr(),
            b_cols,
            b_rows,
            0.0_f32,
            1.0_f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn by_matrixmultiply(a: Factor<'_>, b: Factor<'_>, c: &mut [f32]) {
    let ((a_rows, a_cols), (b_rows, b_cols)) = (a.strides(), b.strides());
    // SAFETY: a factor's strides stay inside its values, and `c` has a value for each row and column.
    unsafe {
        matrixmultiply::sgemm(
            a.n_rows,
            a.n_cols,
            b.n_cols,
            1.0,
            a.values.as_ptr(),
            a_rows,
            a_cols,
            b.values.as_ptr(),
            b_rows,
            b_cols,
            0.0,
            c.as_mut_ptr(),
            b.n_cols as isize,
            1,
        );
    }
}

#[cfg(feature = "faer")]
fn by_faer(a: Factor<'_>, b: Factor<'_>, c: &mut [f32]) {
    use faer::{Accum, MatMut, MatRef, Par};

    let (n_rows, n_cols) = (a.n_rows, b.n_cols);
    let [a, b] = [a, b].map(|x| {
        let stride = x.stride();
        let lying = MatRef::from_row_major_slice(x.values, x.values.len() / stride, stride);
        if x.is_transposed { lying.transpose() } else { lying }
    });
    let c = MatMut::from_row_major_slice_mut(c, n_rows, n_cols);
    faer::linalg::matmul::matmul(c, Accum::Replace, a, b, 1.0_f32, Par::Seq);
}

/// C's product of row-major matrices, with indices of type `I`.
type Sgemm<I> = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    I,
    I,
    I,
    f32,
    *const f32,
    I,
    *const f32,
    I,
    f32,
    *mut f32,
    I,
);

/// The two kinds of indices that libraries are built with.
enum Call {
    Short(Sgemm<i32>),
    Long(Sgemm<i64>),
}

/// A BLAS with C's interface, loaded at run time.
pub(super) struct Blas {
    name: String,
    call: Call,
    /// What `call` lies in.
    _library: libloading::Library,
}

/// What names end with, and whether indices are long. Python's packages rename what they bring.
const NAMES: [(&str, &str, bool); 4] =
    [("", "", false), ("", "64_", true), ("scipy_", "", false), ("scipy_", "64_", true)];
const ROW_MAJOR: c_int = 101;
const AS_IT_LIES: c_int = 111;
const TRANSPOSED: c_int = 112;

impl Blas {
    /// Loads a library, and tells it to stay on the calling thread.
    ///
    /// # Errors
    /// It cannot be loaded, or has no `cblas_sgemm`.
    pub(super) fn load(path: &OsStr) -> Result<Self> {
        // SAFETY: it is the caller's choice to run what the library runs when it is loaded.
        let library = unsafe { libloading::Library::new(path) }?;
        let found = NAMES.into_iter().find_map(|(before, after, is_long)| {
            let name = format!("{before}cblas_sgemm{after}");
            let call = if is_long {
                Call::Long(symbol(&library, &name)?)
            } else {
                Call::Short(symbol(&library, &name)?)
            };
            Some((before, after, call))
        });
        let (before, after, call) = found.context("no cblas_sgemm in it")?;
        let set_threads: Option<unsafe extern "C" fn(c_int)> =
            symbol(&library, &format!("{before}openblas_set_num_threads{after}"));
        if let Some(set_threads) = set_threads {
            // SAFETY: OpenBLAS's function of this name takes one int.
            unsafe { set_threads(1) };
        }
        let config: Option<unsafe extern "C" fn() -> *const c_char> =
            symbol(&library, &format!("{before}openblas_get_config{after}"));
        let name = config.map_or_else(
            || path.to_string_lossy().into_owned(),
            |config| {
                // SAFETY: OpenBLAS's function of this name returns a C string that stays.
                let config = unsafe { CStr::from_ptr(config()) };
                let words = config.to_string_lossy();
                words.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
            },
        );
        Ok(Self { name, call, _library: library })
    }

    fn product(&self, a: Factor<'_>, b: Factor<'_>, c: &mut [f32]) {
        match self.call {
            Call::Short(call) => by_blas(call, a, b, c, |size| size as i32),
            Call::Long(call) => by_blas(call, a, b, c, |size| size as i64),
        }
    }
}

fn by_blas<I>(
    call: Sgemm<I>,
    a: Factor<'_>,
    b: Factor<'_>,
    c: &mut [f32],
    index: impl Fn(usize) -> I,
) {
    let order = |x: Factor<'_>| if x.is_transposed { TRANSPOSED } else { AS_IT_LIES };
    // SAFETY: a factor's strides stay inside its values, and `c` has a value for each row and column.
    unsafe {
        call(
            ROW_MAJOR,
            order(a),
            order(b),
            index(a.n_rows),
            index(b.n_cols),
            index(a.n_cols),
            1.0,
            a.values.as_ptr(),
            index(a.stride()),
            b.values.as_ptr(),
            index(b.stride()),
            0.0,
            c.as_mut_ptr(),
            index(b.n_cols),
        );
    }
}

/// A function of a library, if it has one of this name; it stays where the library does.
fn symbol<F: Copy>(library: &libloading::Library, name: &str) -> Option<F> {
    // SAFETY: each name above is asked for with the type that C's interface gives it.
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}

#[cfg(test)]
mod tests {
    use super::{Factor, Library};

    #[test]
    fn libraries_agree_on_every_arrangement() {
        let values = |n: usize| (0..n).map(|i| (i * 7 % 11) as f32 - 5.0).collect::<Vec<_>>();
        let (m, k, n) = (5, 3, 4);
        let (a, b) = (values(m * k), values(k * n));
        let transpose = |x: &[f32], n_cols: usize| -> Vec<f32> {
            let n_rows = x.len() / n_cols;
            (0..x.len()).map(|at| x[at % n_rows * n_cols + at / n_rows]).collect()
        };
        let (a_t, b_t) = (transpose(&a, k), transpose(&b, n));
        let expected: Vec<f32> = (0..m * n)
            .map(|at| (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum())
            .collect();
        let libraries = [
            Library::Gemm,
            Library::MatrixMultiply,
            #[cfg(feature = "faer")]
            Library::Faer,
        ];
        for library in libraries {
            for a in [Factor::new(&a, k), Factor::new(&a_t, m).transposed()] {
                for b in [Factor::new(&b, n), Factor::new(&b_t, k).transposed()] {
                    let mut c = vec![f32::NAN; m * n];
                    library.product(a, b, &mut c);
                    assert_eq!(c, expected, "{}", library.name());
                }
            }
        }
    }
}
