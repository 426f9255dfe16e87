//! The largest single allocation that a thread asks for.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn note(n_bytes: usize) {
    // At a thread's end the cell may be gone already; nobody asks then.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(n_bytes)));
}

// SAFETY: every call is passed on to the system's allocator as it came; noting a size in a
// thread-local cell without destructor allocates nothing.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same one.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from this allocator, that is from the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        note(n_bytes);
        // SAFETY: `pointer` came from this allocator, that is from the system's.
        unsafe { System.realloc(pointer, layout, n_bytes) }
    }
}

/// Runs `work` and tells the largest allocation that this thread asked for meanwhile, in bytes.
pub(crate) fn largest_during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.with(|largest| largest.set(0));
    let result = work();
    (result, LARGEST.with(Cell::get))
}

#[test]
fn a_large_allocation_is_seen() {
    let (bytes, largest) = largest_during(|| vec![1_u8; 3 << 20]);
    assert_eq!(bytes.len(), 3 << 20);
    assert!(largest >= 3 << 20, "{largest}");
}
