//! Launches.
// Calls foreign functions.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use std::ffi::CString;

use sylvie_kernels::{Kernel, Kind, Launch};

use crate::buffer::Buffer;
use crate::raw;

/// In which order lanes run between two meetings, and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first lane first.
    Forward,
    /// The last lane first.
    Backward,
    /// Shuffled anew between any two meetings, by a seed above 1.
    Shuffled(u64),
}

/// A value for a kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// An address.
    Pointer(*mut u8),
    /// 32 bits.
    U32(u32),
    /// 64 bits.
    U64(u64),
    /// A float.
    F32(f32),
}

impl Argument {
    /// The pointer of an optional argument that is left out.
    pub const NULL: Self = Self::Pointer(std::ptr::null_mut());

    fn fits(self, kind: Kind) -> bool {
        match self {
            Self::Pointer(_) => {
                matches!(kind, Kind::F32s | Kind::F64s | Kind::U32s | Kind::U64s | Kind::U8s)
            }
            Self::U32(_) => kind == Kind::U32,
            Self::U64(_) => kind == Kind::U64,
            Self::F32(_) => kind == Kind::F32,
        }
    }

    fn place(&self) -> *mut c_void {
        match self {
            Self::Pointer(value) => std::ptr::from_ref(value).cast_mut().cast(),
            Self::U32(value) => std::ptr::from_ref(value).cast_mut().cast(),
            Self::U64(value) => std::ptr::from_ref(value).cast_mut().cast(),
            Self::F32(value) => std::ptr::from_ref(value).cast_mut().cast(),
        }
    }
}

impl From<&Buffer> for Argument {
    fn from(buffer: &Buffer) -> Self {
        Self::Pointer(buffer.address())
    }
}

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The device has no kernel of that name.
    #[error("no kernel `{entry}`")]
    NoKernel {
        /// Its name.
        entry: &'static str,
    },
    /// What the device found wrong while it ran.
    #[error("{found}")]
    Failed {
        /// Kernel, thread and fault.
        found: String,
    },
}

/// Launches a kernel over the grid that it names for `n_rows` rows of `width` values, watching for races.
///
/// # Errors
/// What the device found wrong.
/// # Panics
/// If the arguments are not those of the kernel.
pub fn launch(
    kernel: &Kernel,
    (n_rows, width): (u64, u64),
    arguments: &[Argument],
    order: Order,
) -> Result<(), LaunchError> {
    match kernel.launch(n_rows, width) {
        Some(grid) => launch_grid(kernel, grid, arguments, order),
        None => Ok(()),
    }
}

/// [`launch`] over any grid.
///
/// # Errors
/// As there.
/// # Panics
/// As there.
pub fn launch_grid(
    kernel: &Kernel,
    grid: Launch,
    arguments: &[Argument],
    order: Order,
) -> Result<(), LaunchError> {
    let (found, expected) = (arguments.len(), kernel.parameters.len());
    assert_eq!(found, expected, "arguments of {}", kernel.entry);
    for (argument, parameter) in arguments.iter().zip(kernel.parameters) {
        let fits = argument.fits(parameter.kind);
        assert!(fits, "{argument:?} for {parameter:?} of {}", kernel.entry);
    }
    let entry = CString::new(kernel.entry).expect("names have no NUL");
    // SAFETY: a string that ends.
    let found = unsafe { raw::sylvie_emulated_find(entry.as_ptr()) };
    if found.is_null() {
        return Err(LaunchError::NoKernel { entry: kernel.entry });
    }
    let mut places: Vec<_> = arguments.iter().map(Argument::place).collect();
    let mut message = [0 as c_char; 1024];
    let order = match order {
        Order::Forward => 0,
        Order::Backward => 1,
        Order::Shuffled(seed) => seed.max(2),
    };
    // SAFETY: the arguments fit the kernel's parameters one by one, and the buffers that they name live; the device
    // checks what the kernel does with them.
    let has_failed = unsafe {
        raw::sylvie_emulated_set_order(order);
        raw::sylvie_emulated_watch_races(1);
        let (grid, block, shared_bytes) = (grid.grid, grid.block, grid.shared_bytes as usize);
        let (grid, block, places) = (grid.as_ptr(), block.as_ptr(), places.as_mut_ptr());
        let (text, n_bytes) = (message.as_mut_ptr(), message.len());
        raw::sylvie_emulated_launch(found, grid, block, shared_bytes, places, text, n_bytes) != 0
    };
    if has_failed {
        // SAFETY: the device ended the message with a NUL.
        let found = unsafe { CStr::from_ptr(message.as_ptr()) };
        return Err(LaunchError::Failed { found: found.to_string_lossy().into_owned() });
    }
    Ok(())
}
