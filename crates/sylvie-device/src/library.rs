//! Whether the libraries are there, asked before anything is called: a call into a missing one would panic.
#![allow(unsafe_code)]

use cudarc::{cublas, driver, get_lib_name_candidates, nccl, nvrtc};

use crate::DeviceError;

/// A library that is loaded when it is first needed.
///
/// # Example
/// ```
/// use sylvie_device::Library;
///
/// match Library::Nccl.require() {
///     Ok(()) => assert!(Library::Nccl.is_present()),
///     Err(error) => println!("{error}"), // which file names were looked for, and where
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The driver, without which there are no devices.
    Driver,
    /// Dense products.
    Blas,
    /// Exchange between devices.
    Nccl,
    /// Compilation at run time, for drivers older than the kernels.
    Nvrtc,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Driver => "cuda",
            Self::Blas => "cublas",
            Self::Nccl => "nccl",
            Self::Nvrtc => "nvrtc",
        }
    }

    /// Whether the system's loader finds it.
    #[must_use]
    pub fn is_present(self) -> bool {
        // SAFETY: loading NVIDIA's libraries runs their initialisers, which is what whoever asks for a
        // device wants; nothing is called.
        unsafe {
            match self {
                Self::Driver => driver::sys::is_culib_present(),
                Self::Blas => cublas::sys::is_culib_present(),
                Self::Nccl => nccl::sys::is_culib_present(),
                Self::Nvrtc => nvrtc::sys::is_culib_present(),
            }
        }
    }

    /// # Errors
    /// [`DeviceError::LibraryMissing`] with what was looked for.
    pub fn require(self) -> Result<(), DeviceError> {
        if self.is_present() {
            return Ok(());
        }
        let (purpose, library, remedy) = match self {
            Self::Driver => ("a CUDA device", "libcuda", "NVIDIA's driver"),
            Self::Blas => {
                ("the CUDA backend", "libcublas", "the CUDA toolkit or NVIDIA's cuBLAS package")
            }
            Self::Nccl => (
                "the transport nccl",
                "libnccl",
                "NVIDIA's NCCL, with libnccl.so beside libnccl.so.2, which alone is not found",
            ),
            Self::Nvrtc => {
                ("compilation of kernels", "libnvrtc", "the CUDA toolkit or NVIDIA's NVRTC package")
            }
        };
        // The names by which the loader is asked; those of long-gone versions say nothing.
        let mut names = get_lib_name_candidates(self.name());
        names.retain(|name| name.matches('_').count() == 0);
        Err(DeviceError::LibraryMissing { purpose, library, tried: names.join(", "), remedy })
    }
}
