//! What can go wrong with a device.

use cudarc::driver::DriverError;

/// Why a device cannot be used, or what it reported.
///
/// # Example
/// ```
/// use sylvie_device::{Device, DeviceError};
///
/// match Device::open(99) {
///     Err(DeviceError::NoDevice { n_devices, .. }) => println!("there are {n_devices} only"),
///     Err(error @ DeviceError::LibraryMissing { .. }) => println!("{error}"), // says what would help
///     Err(error) => println!("{error}"),
///     Ok(device) => println!("{:?}", device.info()),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A library is not installed, or not where the system's loader looks.
    #[error(
        "{purpose} needs the library {library}, which is not found: looked for {tried} in \
         LD_LIBRARY_PATH and the system's library folders; install {remedy}"
    )]
    LibraryMissing {
        /// What it is for.
        purpose: &'static str,
        /// Its plain name.
        library: &'static str,
        /// The file names that were tried.
        tried: String,
        /// What holds it.
        remedy: &'static str,
    },
    /// There is no device with this number.
    #[error(
        "no CUDA device {ordinal}: the driver lists {n_devices} (CUDA_VISIBLE_DEVICES may hide some)"
    )]
    NoDevice {
        /// Number asked for.
        ordinal: usize,
        /// Number of devices.
        n_devices: usize,
    },
    /// The driver takes neither the compiled kernels nor those that could be compiled here.
    #[error(
        "the driver (CUDA {}.{}) refuses the kernels of {module} ({refusal}), and they cannot be \
         compiled here: {fallback}; a newer driver helps, or NVRTC of the driver's version",
        driver / 1000, driver % 1000 / 10
    )]
    KernelsRefused {
        /// The file of kernels.
        module: &'static str,
        /// The newest CUDA version that the driver knows, times 1000.
        driver: i32,
        /// What the driver said.
        refusal: String,
        /// Why run-time compilation did not help.
        fallback: String,
    },
    /// No file of kernels has this one.
    #[error("no kernel is called {kernel}")]
    NoKernel {
        /// Name looked for.
        kernel: &'static str,
    },
    /// The device's memory is full.
    #[error(
        "device {ordinal} has no {bytes} bytes of memory left ({in_use} in use by this process's matrices)"
    )]
    OutOfMemory {
        /// Number of the device.
        ordinal: usize,
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that matrices of this process hold.
        in_use: u64,
    },
    /// A call of a library failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// The call.
        call: &'static str,
        /// What the library said.
        reason: String,
    },
}

/// Names the call that a driver's error came from.
pub(crate) trait During<T> {
    /// # Errors
    /// The driver's, with the call's name.
    fn during(self, call: &'static str) -> Result<T, DeviceError>;
}

impl<T> During<T> for Result<T, DriverError> {
    fn during(self, call: &'static str) -> Result<T, DeviceError> {
        self.map_err(|error| DeviceError::Call { call, reason: text_of(&error) })
    }
}

/// The name and the sentence that the driver has for an error.
pub(crate) fn text_of(error: &DriverError) -> String {
    let known = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
    };
    let (name, sentence) = (known(error.error_name()), known(error.error_string()));
    if name.is_empty() {
        format!("error {}", error.0 as i32)
    } else {
        format!("{name}: {sentence}")
    }
}
