//! Buffers that matrices take and give back.
// Asking the system for large pages is a call into it.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers of fewer values than this are left to the allocator.
const MIN_VALUES: usize = 1024;
/// A buffer that lay idle while so many were taken is freed.
const MAX_IDLE_TAKES: u64 = 4096;
/// Takes between two looks for such buffers.
const SWEEP_TAKES: u64 = 256;

/// Memory in the buffers of a [`CpuBackend`](super::CpuBackend) and its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferUse {
    /// Buffers that had to be allocated since the backend was made.
    pub n_allocated: u64,
    /// Bytes of buffers that matrices hold.
    pub in_use_bytes: u64,
    /// Bytes of buffers that wait for a matrix.
    pub idle_bytes: u64,
}

/// Buffers by size class; shared by its clones.
///
/// A buffer of `n` values goes to class `ilog2(n)`, and serves requests of that class that fit into it:
/// it is never twice as large as what was asked for. What lies idle is bounded by two rules:
///
/// - a class holds, idle and in use, no more buffers than were in use at once: before one more is
///   allocated, the smallest that is idle is freed;
/// - what lay idle while 4096 buffers of any class were taken is freed.
///
/// Hence whoever reads large matrices one after another retains one of them, and whoever repeats the same
/// takes and returns allocates nothing after a few rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    shared: Arc<Mutex<Shelves>>,
}

#[derive(Debug, Default)]
struct Shelves {
    classes: BTreeMap<u32, Shelf>,
    n_takes: u64,
    buffer_use: BufferUse,
}

#[derive(Debug, Default)]
struct Shelf {
    idle: Vec<Idle>,
    n_in_use: usize,
    max_in_use: usize,
}

#[derive(Debug)]
struct Idle {
    buffer: Vec<f32>,
    /// Number of takes when it was given back.
    since: u64,
}

fn class(n_values: usize) -> u32 {
    n_values.ilog2()
}

fn bytes(buffer: &Vec<f32>) -> u64 {
    (buffer.capacity() * size_of::<f32>()) as u64
}

/// Asks the system to back a large buffer with large pages, where it has them: rows that are gathered
/// from all over a matrix otherwise miss the processor's table of pages, one by one.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(buffer: &mut Vec<f32>) {
    const PAGE: usize = 1 << 21;
    let start = buffer.as_mut_ptr() as usize;
    let end = start + buffer.capacity() * size_of::<f32>();
    let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
    if first < last {
        // SAFETY: the range lies inside the buffer, and advice changes no contents. A system that does
        // not take it says so, which changes nothing.
        unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: &mut Vec<f32>) {}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // Every critical section leaves the shelves whole, so a panic elsewhere does not matter.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer with room for `n_values` and any number of old values in it.
    pub(crate) fn take(&self, n_values: usize) -> Vec<f32> {
        if n_values < MIN_VALUES {
            return Vec::with_capacity(n_values);
        }
        let (found, freed) = self.lock().take(n_values);
        // Outside of the lock, and before new memory is asked for.
        drop(freed);
        found.unwrap_or_else(|| {
            let mut buffer = Vec::with_capacity(n_values);
            ask_for_large_pages(&mut buffer);
            self.lock().count_allocated(&buffer);
            buffer
        })
    }

    /// Takes a buffer back that is as long as what was asked for.
    pub(crate) fn give_back(&self, buffer: Vec<f32>) {
        if buffer.len() >= MIN_VALUES {
            self.lock().give_back(buffer);
        }
    }

    pub(crate) fn buffer_use(&self) -> BufferUse {
        self.lock().buffer_use
    }
}

impl Shelves {
    /// A buffer for `n_values`, where there is one, and what is to be freed.
    fn take(&mut self, n_values: usize) -> (Option<Vec<f32>>, Vec<Idle>) {
        self.n_takes += 1;
        let mut freed = Vec::new();
        if self.n_takes.is_multiple_of(SWEEP_TAKES) {
            freed = self.sweep();
        }
        let shelf = self.classes.entry(class(n_values)).or_default();
        shelf.n_in_use += 1;
        shelf.max_in_use = shelf.max_in_use.max(shelf.n_in_use);
        let found = shelf.best_fit(n_values);
        if found.is_none() && shelf.n_in_use + shelf.idle.len() > shelf.max_in_use {
            let smallest = shelf.best_fit(0).map(|buffer| Idle { buffer, since: 0 });
            self.buffer_use.idle_bytes -=
                smallest.iter().map(|idle| bytes(&idle.buffer)).sum::<u64>();
            freed.extend(smallest);
        }
        if let Some(buffer) = &found {
            self.buffer_use.idle_bytes -= bytes(buffer);
            self.buffer_use.in_use_bytes += bytes(buffer);
        }
        (found, freed)
    }

    fn count_allocated(&mut self, buffer: &Vec<f32>) {
        self.buffer_use.n_allocated += 1;
        self.buffer_use.in_use_bytes += bytes(buffer);
    }

    fn give_back(&mut self, buffer: Vec<f32>) {
        self.buffer_use.in_use_bytes -= bytes(&buffer);
        self.buffer_use.idle_bytes += bytes(&buffer);
        let since = self.n_takes;
        let shelf = self.classes.entry(class(buffer.len())).or_default();
        shelf.n_in_use -= 1;
        shelf.idle.push(Idle { buffer, since });
    }

    /// Takes out what lay idle for too long.
    fn sweep(&mut self) -> Vec<Idle> {
        let oldest = self.n_takes.saturating_sub(MAX_IDLE_TAKES);
        let mut freed = Vec::new();
        for shelf in self.classes.values_mut() {
            freed.extend(shelf.idle.extract_if(.., |idle| idle.since < oldest));
        }
        self.buffer_use.idle_bytes -= freed.iter().map(|idle| bytes(&idle.buffer)).sum::<u64>();
        freed
    }
}

impl Shelf {
    /// Takes out the smallest idle buffer with room for `n_values`: of those alike the one used last,
    /// which may still be in a cache.
    fn best_fit(&mut self, n_values: usize) -> Option<Vec<f32>> {
        let fitting = self.idle.iter().enumerate().rev();
        let fitting = fitting.filter(|(_, idle)| idle.buffer.capacity() >= n_values);
        let (place, _) = fitting.min_by_key(|(_, idle)| idle.buffer.capacity())?;
        Some(self.idle.remove(place).buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_IDLE_TAKES, MIN_VALUES, Pool, SWEEP_TAKES};

    fn filled(pool: &Pool, n_values: usize) -> Vec<f32> {
        let mut buffer = pool.take(n_values);
        buffer.resize(n_values, 1.0);
        buffer
    }

    #[test]
    fn what_was_given_back_is_taken_again() {
        let pool = Pool::default();
        let buffer = filled(&pool, 3000);
        let place = buffer.as_ptr();
        pool.give_back(buffer);
        assert_eq!(pool.buffer_use().idle_bytes, 12_000);
        let again = filled(&pool, 2500);
        assert_eq!(again.as_ptr(), place);
        let found = pool.buffer_use();
        assert_eq!((found.n_allocated, found.in_use_bytes, found.idle_bytes), (1, 12_000, 0));
        pool.give_back(again);
    }

    #[test]
    fn the_best_fit_is_taken_and_never_one_twice_as_large() {
        let pool = Pool::default();
        let sizes = [4000, 2100, 3000, 4100, 1500];
        let buffers: Vec<_> = sizes.iter().map(|&n| filled(&pool, n)).collect();
        buffers.into_iter().for_each(|buffer| pool.give_back(buffer));
        for (wanted, found) in
            [(2100, 2100), (2101, 3000), (2102, 4000), (1024, 1500), (4097, 4100)]
        {
            assert_eq!(pool.take(wanted).capacity(), found, "{wanted} values");
        }
        // None of its class is left.
        assert_eq!(pool.take(2200).capacity(), 2200);
    }

    #[test]
    fn reading_one_after_another_retains_one() {
        let pool = Pool::default();
        for round in 0..3 {
            // Growing, so that none fits where the one before it was.
            for n_values in (2100..4000).step_by(100) {
                let buffer = filled(&pool, n_values);
                let found = pool.buffer_use();
                assert_eq!(found.idle_bytes, 0, "{n_values} values, round {round}");
                pool.give_back(buffer);
                assert!(pool.buffer_use().idle_bytes <= 4 * 3900);
            }
        }
        // The largest serves all once it is there.
        assert_eq!(pool.buffer_use().n_allocated, 19);
    }

    #[test]
    fn repeated_rounds_come_to_allocate_nothing() {
        let pool = Pool::default();
        let mut n_allocated = Vec::new();
        for _ in 0..6 {
            let mut held: Vec<Vec<f32>> = Vec::new();
            for step in 0..40_usize {
                held.push(filled(&pool, 1100 + 977 * (step * 7 % 11)));
                if step % 3 == 2 {
                    pool.give_back(held.swap_remove(step % held.len()));
                }
            }
            held.into_iter().for_each(|buffer| pool.give_back(buffer));
            n_allocated.push(pool.buffer_use().n_allocated);
        }
        assert_eq!(n_allocated[4], n_allocated[5], "{n_allocated:?}");
    }

    #[test]
    fn what_lies_idle_for_long_is_freed() {
        let pool = Pool::default();
        let large: Vec<_> = (0..5).map(|_| filled(&pool, 100_000)).collect();
        large.into_iter().for_each(|buffer| pool.give_back(buffer));
        assert_eq!(pool.buffer_use().idle_bytes, 5 * 400_000);
        for _ in 0..MAX_IDLE_TAKES + SWEEP_TAKES {
            let buffer = filled(&pool, 2000);
            pool.give_back(buffer);
        }
        assert_eq!(pool.buffer_use().idle_bytes, 8000);
    }

    #[test]
    fn small_buffers_are_left_to_the_allocator() {
        let pool = Pool::default();
        let buffer = filled(&pool, MIN_VALUES - 1);
        pool.give_back(buffer);
        assert_eq!(pool.buffer_use(), super::BufferUse::default());
    }
}
