//! Sylvie's operations on CUDA devices: [`Backend`](sylvie_tensor::Backend) and
//! [`Wire`](sylvie_tensor::Wire) by [`CudaBackend`].
//!
//! Dense products go to cuBLAS, everything else to the kernels of `sylvie-kernels`. Operations are submitted
//! to the calling thread's stream and run later; only what a caller gets back on the host is waited for. The
//! plain loops of [`CpuBackend`](sylvie_tensor::CpuBackend) are the specification.
//!
//! Nothing of CUDA is needed to build this. [`CudaBackend::open`] says what is missing where it runs.
//!
//! # Failing devices
//! The traits' operations cannot fail, so a device that does - its memory full, a fault that a later call
//! reports - panics with the [`DeviceError`]'s message, as an allocator ends a program.

mod aggregate;
mod attention;
mod backend;
mod loss;
mod matrix;
mod messages;
mod products;
mod row_wise;
mod wire;

pub use aggregate::CudaAdjacency;
pub use backend::CudaBackend;
pub use matrix::{CudaIndex, CudaMatrix, CudaSparse};
pub use messages::{Messages, OnDevice, Staged};
pub use sylvie_device::{Device, DeviceBytes, DeviceError, DeviceInfo, devices, driver_version};

/// # Panics
/// If the device failed.
#[track_caller]
fn done<T>(result: Result<T, DeviceError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// A number of rows, columns or entries as kernels take it.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or_else(|_| panic!("{n} rows, more than a kernel counts"))
}

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
