//! Pinned host memory, through which values and bytes come and go.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use cudarc::driver::result;

use crate::DeviceError;
use crate::error::During as _;

/// Bytes of one piece: enough for a bus to be at its full speed.
pub(crate) const PIECE_BYTES: usize = 4 << 20;

/// Two pieces that take turns, so that one is copied by the host while the device copies the other.
#[derive(Default)]
pub(crate) struct Staging {
    pub(crate) pieces: [Piece; 2],
}

/// Pinned memory and the ticket of the operation that last used it.
#[derive(Default)]
pub(crate) struct Piece {
    place: Option<NonNull<u8>>,
    capacity: usize,
    pub(crate) ticket: Option<u64>,
}

// SAFETY: the memory is this value's own, and any thread may touch it.
unsafe impl Send for Piece {}

impl Piece {
    /// The first `n_bytes` of it, allocated where it is too small. Whoever calls has waited for `ticket`.
    ///
    /// # Errors
    /// The driver has no pinned memory left.
    pub(crate) fn first(&mut self, n_bytes: usize) -> Result<&mut [u8], DeviceError> {
        if self.capacity < n_bytes {
            self.free();
            let capacity = n_bytes.next_power_of_two();
            // SAFETY: the context is current, since an operation is about to be submitted.
            let place = unsafe { result::malloc_host(capacity, 0) }.during("cuMemHostAlloc")?;
            self.place = NonNull::new(place.cast());
            self.capacity = capacity;
            if let Some(place) = self.place {
                // SAFETY: `capacity` bytes were just allocated there. Slices are made of what is written.
                unsafe { place.as_ptr().write_bytes(0, capacity) };
            }
        }
        Ok(match self.place {
            // SAFETY: `capacity` bytes are allocated and written there, and borrowed with `self`.
            Some(place) => unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), n_bytes) },
            None => &mut [],
        })
    }

    fn free(&mut self) {
        if let Some(place) = self.place.take() {
            // SAFETY: allocated by `first`, and freed once. What the driver says of it helps nobody.
            let _ = unsafe { result::free_host(place.as_ptr().cast()) };
        }
        self.capacity = 0;
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.free();
    }
}
