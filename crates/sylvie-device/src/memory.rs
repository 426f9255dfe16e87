//! Memory of a device, taken from a pool and given back to it.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::stream::Point;

/// Bytes of the smallest block.
const MIN_BYTES: usize = 256;
/// A block that lay idle while so many were taken is freed.
const MAX_IDLE_TAKES: u64 = 4096;
/// Takes between two looks for such blocks.
const SWEEP_TAKES: u64 = 256;

/// Bytes on a device.
///
/// Operations on several threads may use it: each thread has a stream, and a stream waits for what others
/// have submitted before, as far as it concerns the same memory. The bytes are unspecified at first. Dropped,
/// the block goes back to its device's pool, with what is still under way on it.
///
/// # Example
/// ```
/// use std::thread;
/// use sylvie_device::{Device, MemoryUse};
/// # sylvie_standins::install();
///
/// let device = Device::open(0)?;
/// let mut memory = device.allocate(1000)?;
/// device.fill(7, &mut memory)?;
/// // Another thread's stream waits for the filling by itself.
/// let read = || -> Result<u8, _> {
///     let mut bytes = [0; 1000];
///     device.read(&memory, &mut bytes).map(|()| bytes[999])
/// };
/// let last = thread::scope(|scope| scope.spawn(read).join()).expect("the thread has not panicked")?;
/// assert_eq!(last, 7);
///
/// drop(memory);
/// let again = device.allocate(1000)?; // the same block
/// let MemoryUse { n_allocated, idle_bytes, .. } = device.memory_use();
/// assert_eq!((again.n_bytes(), n_allocated, idle_bytes), (1000, 1, 0));
/// # Ok::<(), sylvie_device::DeviceError>(())
/// ```
pub struct Memory {
    device: Device,
    block: Block,
    n_bytes: usize,
}

/// A piece of the device's memory, and who uses it.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) capacity: usize,
    pub(crate) uses: Mutex<Uses>,
}

/// The operations that whoever comes next may have to wait for.
#[derive(Clone, Default)]
pub(crate) struct Uses {
    writer: Option<Point>,
    /// Since the last write, the last of each stream.
    readers: Vec<Point>,
}

impl Memory {
    pub(crate) fn new(device: Device, block: Block, n_bytes: usize) -> Self {
        Self { device, block, n_bytes }
    }

    /// The device that it lies on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Makes it shorter, or as long as its block allows; says whether it did. The bytes are unspecified then.
    pub fn try_resize(&mut self, n_bytes: usize) -> bool {
        let fits = n_bytes <= self.block.capacity;
        if fits {
            self.n_bytes = n_bytes;
        }
        fits
    }

    pub(crate) fn address(&self) -> u64 {
        self.block.address
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.block.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a reader must wait for.
    pub(crate) fn before_reading(&self, after: &mut Vec<Point>) {
        after.extend(self.uses().writer);
    }

    /// Adds what a writer must wait for.
    pub(crate) fn before_writing(&self, after: &mut Vec<Point>) {
        let uses = self.uses();
        after.extend(uses.writer);
        after.extend(&uses.readers);
    }

    pub(crate) fn note_read(&self, point: Point) {
        let readers = &mut self.uses().readers;
        readers.retain(|reader| reader.stream != point.stream);
        readers.push(point);
    }

    pub(crate) fn note_written(&self, point: Point) {
        *self.uses() = Uses { writer: Some(point), readers: Vec::new() };
    }

    /// The last operation that wrote to it, if any did.
    pub(crate) fn writer(&self) -> Option<Point> {
        self.uses().writer
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.device.give_back(take(&mut self.block));
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ordinal, n_bytes) = (self.device.ordinal(), self.n_bytes);
        f.debug_struct("Memory")
            .field("device", &ordinal)
            .field("n_bytes", &n_bytes)
            .finish_non_exhaustive()
    }
}

/// Memory in the blocks of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Blocks that had to be allocated since the device was opened.
    pub n_allocated: u64,
    /// Bytes of blocks in use.
    pub in_use_bytes: u64,
    /// Bytes of blocks that wait to be used.
    pub idle_bytes: u64,
}

/// Idle blocks by size class (a power of two, split in four).
///
/// A block serves requests that are at most a quarter smaller than it; what lay idle while 4096 others
/// were taken is freed. So whoever repeats the same takes and returns allocates nothing after a round.
#[derive(Default)]
pub(crate) struct Pool {
    idle: BTreeMap<usize, Vec<Idle>>,
    n_takes: u64,
    pub(crate) memory_use: MemoryUse,
}

struct Idle {
    block: Block,
    /// Number of takes when it was given back.
    since: u64,
}

/// Bytes of the block that serves a request.
pub(crate) fn capacity_for(n_bytes: usize) -> usize {
    let n_bytes = n_bytes.max(MIN_BYTES);
    let step = (n_bytes.next_power_of_two() / 8).max(MIN_BYTES);
    n_bytes.div_ceil(step) * step
}

impl Pool {
    /// An idle block of this capacity, and blocks to be freed.
    pub(crate) fn take(&mut self, capacity: usize) -> (Option<Block>, Vec<Block>) {
        self.n_takes += 1;
        let freed =
            if self.n_takes.is_multiple_of(SWEEP_TAKES) { self.sweep() } else { Vec::new() };
        let found = self.idle.get_mut(&capacity).and_then(Vec::pop).map(|idle| idle.block);
        if found.is_some() {
            self.memory_use.idle_bytes -= capacity as u64;
            self.memory_use.in_use_bytes += capacity as u64;
        }
        (found, freed)
    }

    pub(crate) fn count_allocated(&mut self, capacity: usize) {
        self.memory_use.n_allocated += 1;
        self.memory_use.in_use_bytes += capacity as u64;
    }

    pub(crate) fn give_back(&mut self, block: Block) {
        self.memory_use.in_use_bytes -= block.capacity as u64;
        self.memory_use.idle_bytes += block.capacity as u64;
        let since = self.n_takes;
        self.idle.entry(block.capacity).or_default().push(Idle { block, since });
    }

    /// Takes out all that is idle: the device's memory is full.
    pub(crate) fn drain(&mut self) -> Vec<Block> {
        self.memory_use.idle_bytes = 0;
        take(&mut self.idle).into_values().flatten().map(|idle| idle.block).collect()
    }

    /// Takes out what lay idle for too long.
    fn sweep(&mut self) -> Vec<Block> {
        let oldest = self.n_takes.saturating_sub(MAX_IDLE_TAKES);
        let mut freed = Vec::new();
        for idle in self.idle.values_mut() {
            freed.extend(idle.extract_if(.., |idle| idle.since < oldest).map(|idle| idle.block));
        }
        self.memory_use.idle_bytes -= freed.iter().map(|block| block.capacity as u64).sum::<u64>();
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, MAX_IDLE_TAKES, Pool, SWEEP_TAKES, capacity_for};

    fn block(capacity: usize) -> Block {
        Block { capacity, ..Block::default() }
    }

    #[test]
    fn a_block_is_at_most_a_quarter_larger_than_what_was_asked_for() {
        for n_bytes in (1..1 << 16).chain((20..40).map(|power| (1 << power) + 1)) {
            let capacity = capacity_for(n_bytes);
            assert!(
                capacity >= n_bytes && capacity <= (n_bytes + n_bytes / 4).max(n_bytes + 256),
                "{n_bytes}"
            );
        }
    }

    #[test]
    fn what_was_given_back_is_taken_again_and_what_lies_idle_is_freed() {
        let mut pool = Pool::default();
        pool.count_allocated(1024);
        pool.give_back(block(1024));
        assert!(pool.take(2048).0.is_none());
        assert_eq!(pool.take(1024).0.map(|block| block.capacity), Some(1024));
        pool.give_back(block(1024));
        let freed =
            (0..MAX_IDLE_TAKES + 2 * SWEEP_TAKES).map(|_| pool.take(512).1.len()).sum::<usize>();
        assert_eq!((freed, pool.memory_use.idle_bytes), (1, 0));
    }

    #[test]
    fn a_full_device_gets_back_all_that_is_idle() {
        let mut pool = Pool::default();
        for capacity in [256, 512, 512] {
            pool.count_allocated(capacity);
            pool.give_back(block(capacity));
        }
        assert_eq!(pool.drain().len(), 3);
        assert_eq!((pool.memory_use.in_use_bytes, pool.memory_use.idle_bytes), (0, 0));
    }
}
