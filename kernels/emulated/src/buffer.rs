//! Device memory.
// Looks at memory that foreign functions hand out.
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::marker::PhantomData;
use std::ptr::NonNull;

use crate::raw;

/// What lies in device memory.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub unsafe trait Element: Copy {}

// SAFETY: plain numbers.
unsafe impl Element for u8 {}
// SAFETY: as above.
unsafe impl Element for u32 {}
// SAFETY: as above.
unsafe impl Element for u64 {}
// SAFETY: as above.
unsafe impl Element for f32 {}
// SAFETY: as above.
unsafe impl Element for f64 {}

/// Watched device memory: a kernel that touches a byte beside it fails.
///
/// It begins `offset` bytes into an allocation that ends with it, so that misaligned addresses can be tested.
#[derive(Debug)]
pub struct Buffer {
    start: Option<NonNull<u8>>,
    offset: usize,
    n_bytes: usize,
    /// Kernels write behind shared references, from one thread at a time.
    _not_sync: PhantomData<*mut u8>,
}

impl Buffer {
    /// Memory for `n_bytes` bytes, filled with 0xff; it begins `offset` bytes behind a multiple of 256.
    ///
    /// # Panics
    /// If there is no more memory.
    #[must_use]
    pub fn new(n_bytes: usize, offset: usize) -> Self {
        // SAFETY: any size may be asked for.
        let start = unsafe { raw::sylvie_emulated_alloc(offset + n_bytes) };
        let start = NonNull::new(start.cast());
        assert!(start.is_some() || offset + n_bytes == 0, "no memory for {n_bytes} bytes");
        Self { start, offset, n_bytes, _not_sync: PhantomData }
    }

    /// A copy of host values.
    #[must_use]
    pub fn from_values<T: Element>(values: &[T]) -> Self {
        Self::at_offset(values, 0)
    }

    /// [`Self::from_values`], `offset` bytes behind a multiple of 256.
    #[must_use]
    pub fn at_offset<T: Element>(values: &[T], offset: usize) -> Self {
        let buffer = Self::new(size_of_val(values), offset);
        // SAFETY: both hold so many bytes and do not overlap; elements have no padding.
        unsafe {
            values.as_ptr().cast::<u8>().copy_to_nonoverlapping(buffer.address(), buffer.n_bytes);
        }
        buffer
    }

    /// A host copy.
    ///
    /// # Panics
    /// If the size is not a multiple of the element's.
    #[must_use]
    pub fn values<T: Element>(&self) -> Vec<T> {
        let (n_bytes, size) = (self.n_bytes, size_of::<T>());
        assert!(n_bytes.is_multiple_of(size), "{n_bytes} bytes as elements of {size}");
        let n_values = n_bytes / size;
        // SAFETY: so many bytes are there, and every pattern is a value.
        (0..n_values)
            .map(|i| unsafe { self.address().cast::<T>().add(i).read_unaligned() })
            .collect()
    }

    /// Its address; null without bytes.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.start.map_or(std::ptr::null_mut(), |start| start.as_ptr().wrapping_add(self.offset))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: allocated in `new`, and given back once.
            let refused = unsafe { raw::sylvie_emulated_free(start.as_ptr().cast::<c_void>()) };
            debug_assert_eq!(refused, 0, "memory that was allocated");
        }
    }
}
