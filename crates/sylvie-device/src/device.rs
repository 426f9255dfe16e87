//! A device that has been opened: its memory, its streams, its kernels.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, result, sys};

use crate::error::During as _;
use crate::memory::{Block, Memory, MemoryUse, Pool, capacity_for};
use crate::stream::{Point, Stream};
use crate::{DeviceError, Library};

/// A CUDA device, opened; clones are the same.
///
/// Each thread that operates on it gets a stream of its own, and what threads share keeps its order
/// ([`Memory`]). Errors of operations that run later come with a later call, as the driver reports them.
///
/// # Example
/// ```
/// use sylvie_device::Device;
/// # sylvie_standins::install();
///
/// let device = Device::open(0)?;
/// let sent = device.upload(&[1, 2, 3, 4])?;
/// let mut copied = device.allocate(4)?;
/// device.copy(&sent, 4, &mut copied)?;
/// let mut bytes = [0; 4];
/// device.read(&copied, &mut bytes)?;
/// assert_eq!(bytes, [1, 2, 3, 4]);
/// # Ok::<(), sylvie_device::DeviceError>(())
/// ```
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) context: Arc<CudaContext>,
    ordinal: usize,
    pool: Mutex<Pool>,
    streams: RwLock<Streams>,
    pub(crate) modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
    pub(crate) functions: Mutex<HashMap<&'static str, CudaFunction>>,
}

/// A stream, and all of its device.
pub(crate) type AmongStreams = (Arc<Stream>, Arc<Vec<Arc<Stream>>>);

#[derive(Default)]
struct Streams {
    all: Arc<Vec<Arc<Stream>>>,
    /// Those whose threads have ended.
    idle: Vec<usize>,
}

/// What a device is.
///
/// # Example
/// ```
/// use sylvie_device::{DeviceInfo, devices, driver_version};
/// # sylvie_standins::install();
///
/// println!("a driver for CUDA {}", driver_version()? / 1000);
/// for DeviceInfo { ordinal, name, memory_bytes, .. } in devices()? {
///     println!("device {ordinal}: {name}, {} MiB", memory_bytes >> 20);
/// }
/// # Ok::<(), sylvie_device::DeviceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Processors on it.
    pub n_processors: i32,
}

/// The devices that there are, none of them opened.
///
/// # Errors
/// [`DeviceError::LibraryMissing`] without a driver; what the driver says, where it cannot start.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    (0..count()?).map(info).collect()
}

/// The newest CUDA version that the driver knows, times 1000.
///
/// # Errors
/// As [`devices`].
pub fn driver_version() -> Result<i32, DeviceError> {
    Library::Driver.require()?;
    let mut version = 0;
    // SAFETY: the place is this function's own.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().during("cuDriverGetVersion")?;
    Ok(version)
}

fn count() -> Result<usize, DeviceError> {
    Library::Driver.require()?;
    match CudaContext::device_count() {
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(0),
        outcome => Ok(usize::try_from(outcome.during("cuInit")?).unwrap_or_default()),
    }
}

fn info(ordinal: usize) -> Result<DeviceInfo, DeviceError> {
    use sys::CUdevice_attribute as Attribute;
    let device = result::device::get(ordinal as i32).during("cuDeviceGet")?;
    let attribute = |which| {
        // SAFETY: the driver gave the handle.
        unsafe { result::device::get_attribute(device, which) }.during("cuDeviceGetAttribute")
    };
    Ok(DeviceInfo {
        ordinal,
        name: result::device::get_name(device).during("cuDeviceGetName")?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        // SAFETY: the driver gave the handle.
        memory_bytes: unsafe { result::device::total_mem(device) }.during("cuDeviceTotalMem")?
            as u64,
        n_processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    })
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`DeviceError::LibraryMissing`] without a driver, [`DeviceError::NoDevice`] for a number that there
    /// is not, or what the driver says.
    pub fn open(ordinal: usize) -> Result<Self, DeviceError> {
        let n_devices = count()?;
        if ordinal >= n_devices {
            return Err(DeviceError::NoDevice { ordinal, n_devices });
        }
        let context = CudaContext::new(ordinal).during("cuDevicePrimaryCtxRetain")?;
        // SAFETY: no slice of cudarc's own is ever made; this crate orders what it submits.
        unsafe { context.disable_event_tracking() };
        Ok(Self {
            inner: Arc::new(Inner {
                context,
                ordinal,
                pool: Mutex::default(),
                streams: RwLock::default(),
                modules: Mutex::default(),
                functions: Mutex::default(),
            }),
        })
    }

    /// Its number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.inner.ordinal
    }

    /// What it is.
    ///
    /// # Errors
    /// What the driver says.
    pub fn info(&self) -> Result<DeviceInfo, DeviceError> {
        info(self.inner.ordinal)
    }

    /// Memory in its blocks.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        self.pool().memory_use
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.inner.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory with room for `n_bytes`, from the pool where it has a block that fits.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn allocate(&self, n_bytes: usize) -> Result<Memory, DeviceError> {
        if n_bytes == 0 {
            return Ok(Memory::new(self.clone(), Block::default(), 0));
        }
        let capacity = capacity_for(n_bytes);
        let (found, freed) = self.pool().take(capacity);
        self.free(freed)?;
        let block = match found {
            Some(block) => block,
            None => self.new_block(capacity)?,
        };
        Ok(Memory::new(self.clone(), block, n_bytes))
    }

    fn new_block(&self, capacity: usize) -> Result<Block, DeviceError> {
        self.inner.context.bind_to_thread().during("cuCtxSetCurrent")?;
        // SAFETY: the block is freed once, by `free` or with the device.
        let mut allocated = unsafe { result::malloc_sync(capacity) };
        if allocated.is_err() {
            let idle = self.pool().drain();
            self.free(idle)?;
            // SAFETY: as above.
            allocated = unsafe { result::malloc_sync(capacity) };
        }
        match allocated {
            Ok(address) => {
                self.pool().count_allocated(capacity);
                Ok(Block { address, capacity, ..Block::default() })
            }
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let in_use = self.memory_use().in_use_bytes;
                Err(DeviceError::OutOfMemory { ordinal: self.ordinal(), bytes: capacity, in_use })
            }
            outcome => outcome.during("cuMemAlloc").map(|_| Block::default()),
        }
    }

    fn free(&self, blocks: Vec<Block>) -> Result<(), DeviceError> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.inner.context.bind_to_thread().during("cuCtxSetCurrent")?;
        for block in blocks {
            // SAFETY: allocated by `new_block`, and taken out of the pool, so that nobody has it. The
            // driver waits for what is under way on it.
            unsafe { result::free_sync(block.address) }.during("cuMemFree")?;
        }
        Ok(())
    }

    pub(crate) fn give_back(&self, block: Block) {
        if block.capacity > 0 {
            self.pool().give_back(block);
        }
    }

    /// The calling thread's stream, and those of all threads.
    ///
    /// # Errors
    /// The driver has no stream left.
    pub(crate) fn streams(&self) -> Result<AmongStreams, DeviceError> {
        let number = self.stream_number()?;
        let all = {
            let streams = self.inner.streams.read().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&streams.all)
        };
        Ok((Arc::clone(&all[number]), all))
    }

    fn stream_number(&self) -> Result<usize, DeviceError> {
        let leased = LEASES.with_borrow(|leases| {
            let own = leases.iter().find(|lease| lease.is_of(&self.inner));
            own.map(|lease| lease.number)
        });
        if let Some(number) = leased {
            return Ok(number);
        }
        let number = self.take_stream()?;
        LEASES.with_borrow_mut(|leases| {
            leases.retain(|lease| lease.inner.strong_count() > 0);
            leases.push(Lease { inner: Arc::downgrade(&self.inner), number });
        });
        Ok(number)
    }

    fn take_stream(&self) -> Result<usize, DeviceError> {
        let mut streams = self.inner.streams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = streams.idle.pop() {
            return Ok(number);
        }
        let number = streams.all.len();
        let mut all = Vec::clone(&streams.all);
        all.push(Arc::new(Stream::new(&self.inner.context, number)?));
        streams.all = Arc::new(all);
        Ok(number)
    }

    /// A stream that belongs to no thread, for a library that has its own order. It is given back when
    /// the lease is dropped.
    ///
    /// # Errors
    /// The driver has no stream left.
    pub fn own_stream(&self) -> Result<OwnStream, DeviceError> {
        let number = self.take_stream()?;
        let lease = Lease { inner: Arc::downgrade(&self.inner), number };
        Ok(OwnStream { device: self.clone(), lease })
    }

    pub(crate) fn stream(&self, number: usize) -> AmongStreams {
        let streams = self.inner.streams.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&streams.all[number]), Arc::clone(&streams.all))
    }

    /// # Panics
    /// If the memory is another device's, whose order this one does not know.
    pub(crate) fn assert_own(&self, memory: &Memory) {
        let (own, other) = (self.ordinal(), memory.device().ordinal());
        assert!(
            memory.device() == self,
            "memory of device {other} on device {own}, or opened twice"
        );
    }

    /// Blocks until everything that any thread has submitted is done.
    ///
    /// # Errors
    /// What the driver says of it.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.inner.context.synchronize().during("cuCtxSynchronize")
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("ordinal", &self.inner.ordinal).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
        for block in pool.drain() {
            // SAFETY: memory holds its device, so no block is in use any more, and each is freed once.
            // What the driver says of it helps nobody.
            let _ = unsafe { result::free_sync(block.address) };
        }
    }
}

/// A stream lent to a thread, and given back when that ends.
struct Lease {
    inner: Weak<Inner>,
    number: usize,
}

impl Lease {
    fn is_of(&self, inner: &Arc<Inner>) -> bool {
        std::ptr::eq(self.inner.as_ptr(), Arc::as_ptr(inner))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            let mut streams = inner.streams.write().unwrap_or_else(PoisonError::into_inner);
            streams.idle.push(self.number);
        }
    }
}

thread_local! {
    /// This thread's stream on each device.
    static LEASES: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

/// A stream that belongs to whoever holds it, whatever thread that is.
///
/// # Example
/// ```
/// use sylvie_device::{Device, Submitted};
/// # sylvie_standins::install();
///
/// let device = Device::open(0)?;
/// let stream = device.own_stream()?;
/// let (source, mut target) = (device.upload(&[7; 64])?, device.allocate(64)?);
/// // Here a library would be called with the raw stream and the two addresses.
/// let call = |_, _: &[u64], _: &[u64]| Ok(());
/// // SAFETY: nothing is submitted.
/// let submitted: Submitted = unsafe { stream.submit(&[&source], &mut [&mut target], call)? };
/// while !stream.is_done(submitted)? {
///     std::thread::yield_now();
/// }
/// # Ok::<(), sylvie_device::DeviceError>(())
/// ```
pub struct OwnStream {
    device: Device,
    lease: Lease,
}

/// An operation that has been submitted; it is done some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted(pub(crate) Point);

impl OwnStream {
    /// Submits an operation that reads and writes memory, behind all that was submitted on it before.
    ///
    /// `operate` gets the raw stream and, in order, the addresses of `reads` and of `writes`.
    ///
    /// # Errors
    /// Those of `operate` and of the driver.
    /// # Panics
    /// If the memory is another device's.
    /// # Safety
    /// What `operate` submits touches no memory but that, and stays inside of it.
    pub unsafe fn submit(
        &self,
        reads: &[&Memory],
        writes: &mut [&mut Memory],
        operate: impl FnOnce(sys::CUstream, &[u64], &[u64]) -> Result<(), DeviceError>,
    ) -> Result<Submitted, DeviceError> {
        let (stream, all) = self.device.stream(self.lease.number);
        let (mut after, mut sources, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for memory in reads {
            self.device.assert_own(memory);
            memory.before_reading(&mut after);
            sources.push(memory.address());
        }
        for memory in writes.iter() {
            self.device.assert_own(memory);
            memory.before_writing(&mut after);
            targets.push(memory.address());
        }
        let mut state = stream.lock();
        let point =
            stream.submit(&mut state, &all, &after, |raw| operate(raw, &sources, &targets))?;
        drop(state);
        reads.iter().for_each(|memory| memory.note_read(point));
        writes.iter().for_each(|memory| memory.note_written(point));
        Ok(Submitted(point))
    }

    /// Whether an operation on it is done.
    ///
    /// # Errors
    /// What the driver says of it or of an earlier one.
    pub fn is_done(&self, submitted: Submitted) -> Result<bool, DeviceError> {
        self.device.stream(submitted.0.stream).0.is_done(submitted.0.ticket)
    }

    /// Makes the device's context the calling thread's.
    ///
    /// # Errors
    /// What the driver says.
    pub fn bind(&self) -> Result<(), DeviceError> {
        self.device.inner.context.bind_to_thread().during("cuCtxSetCurrent")
    }

    /// The raw stream.
    #[must_use]
    pub fn raw(&self) -> sys::CUstream {
        self.device.stream(self.lease.number).0.raw()
    }
}

impl fmt::Debug for OwnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnStream").field("number", &self.lease.number).finish_non_exhaustive()
    }
}
