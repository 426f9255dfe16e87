//! The functions of `include/sylvie_emulated.h`, as they are.
// Declares foreign functions.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};

/// A kernel, by its address alone.
#[repr(C)]
#[derive(Debug)]
pub struct RawKernel {
    _private: [u8; 0],
}

#[allow(missing_docs, reason = "the header documents them")]
unsafe extern "C" {
    pub fn sylvie_emulated_find(entry: *const c_char) -> *const RawKernel;
    pub fn sylvie_emulated_parameters(kernel: *const RawKernel, sizes: *mut *const usize) -> usize;
    pub fn sylvie_emulated_launch(
        kernel: *const RawKernel,
        grid: *const u32,
        block: *const u32,
        shared_bytes: usize,
        arguments: *mut *mut c_void,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;
    pub fn sylvie_emulated_alloc(bytes: usize) -> *mut c_void;
    pub fn sylvie_emulated_free(memory: *mut c_void) -> c_int;
    pub fn sylvie_emulated_holds(memory: *const c_void, bytes: usize) -> c_int;
    pub fn sylvie_emulated_set_order(order: u64);
    pub fn sylvie_emulated_watch_races(watches: c_int);
}
