//! Copies between host and device, in pieces through pinned memory, and on the device.
#![allow(unsafe_code)]

use cudarc::driver::{result, sys};

use crate::DeviceError;
use crate::device::Device;
use crate::error::During as _;
use crate::memory::Memory;
use crate::staging::PIECE_BYTES;
use crate::stream::{Point, State, Stream};

impl Device {
    /// Memory with these bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], or what the driver says.
    pub fn upload(&self, bytes: &[u8]) -> Result<Memory, DeviceError> {
        let mut memory = self.allocate(bytes.len())?;
        self.write(bytes, &mut memory)?;
        Ok(memory)
    }

    /// Replaces all bytes of `memory`; returns once the host's have been read, not once they have arrived.
    ///
    /// # Errors
    /// What the driver says.
    /// # Panics
    /// If there are not as many bytes as `memory` has.
    pub fn write(&self, bytes: &[u8], memory: &mut Memory) -> Result<(), DeviceError> {
        assert_eq!(bytes.len(), memory.n_bytes(), "bytes and the memory that they are written to");
        if bytes.is_empty() {
            return Ok(());
        }
        self.assert_own(memory);
        let (stream, all) = self.streams()?;
        let mut after = Vec::new();
        memory.before_writing(&mut after);
        let mut state = stream.lock();
        let mut point = None;
        for (number, bytes) in bytes.chunks(PIECE_BYTES).enumerate() {
            let target = memory.address() + (number * PIECE_BYTES) as u64;
            let source = filled(&stream, &mut state, number % 2, bytes)?;
            let submitted = stream.submit(&mut state, &all, &after, |raw| {
                // SAFETY: `bytes.len()` bytes lie at both places; the piece is not touched before the
                // operation is done.
                unsafe { sys::cuMemcpyHtoDAsync_v2(target, source.cast(), bytes.len(), raw) }
                    .result()
                    .during("cuMemcpyHtoDAsync")
            })?;
            state.staging.pieces[number % 2].ticket = Some(submitted.ticket);
            point = Some(submitted);
        }
        drop(state);
        point.into_iter().for_each(|point| memory.note_written(point));
        Ok(())
    }

    /// Copies the first bytes of `memory` to the host, and waits for them.
    ///
    /// # Errors
    /// What the driver says of the copy or of an earlier operation.
    /// # Panics
    /// If `memory` has fewer bytes.
    pub fn read(&self, memory: &Memory, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let (n_wanted, n_bytes) = (bytes.len(), memory.n_bytes());
        assert!(n_wanted <= n_bytes, "{n_wanted} bytes of a memory of {n_bytes}");
        if bytes.is_empty() {
            return Ok(());
        }
        self.assert_own(memory);
        let (stream, all) = self.streams()?;
        let mut after = Vec::new();
        memory.before_reading(&mut after);
        let mut state = stream.lock();
        let mut before: Option<(usize, &mut [u8])> = None;
        let mut point = None;
        for (number, bytes) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
            let source = memory.address() + (number * PIECE_BYTES) as u64;
            let n_bytes = bytes.len();
            let target = cleared(&stream, &mut state, number % 2, n_bytes)?;
            let submitted = stream.submit(&mut state, &all, &after, |raw| {
                // SAFETY: `n_bytes` bytes lie at both places; the piece is not touched before the
                // operation is done.
                unsafe { sys::cuMemcpyDtoHAsync_v2(target.cast(), source, n_bytes, raw) }
                    .result()
                    .during("cuMemcpyDtoHAsync")
            })?;
            state.staging.pieces[number % 2].ticket = Some(submitted.ticket);
            point = Some(submitted);
            // While the device copies this piece, the host takes the one before.
            if let Some((slot, bytes)) = before.replace((number % 2, bytes)) {
                take(&stream, &mut state, slot, bytes)?;
            }
        }
        if let Some((slot, bytes)) = before {
            take(&stream, &mut state, slot, bytes)?;
        }
        drop(state);
        point.into_iter().for_each(|point| memory.note_read(point));
        Ok(())
    }

    /// Copies the first bytes of one memory to the beginning of another on this device.
    ///
    /// # Errors
    /// What the driver says.
    /// # Panics
    /// If either has fewer bytes.
    pub fn copy(&self, from: &Memory, n_bytes: usize, to: &mut Memory) -> Result<(), DeviceError> {
        let least = from.n_bytes().min(to.n_bytes());
        assert!(n_bytes <= least, "{n_bytes} bytes between memories of at least {least}");
        self.assert_own(from);
        self.assert_own(to);
        let (source, target) = (from.address(), to.address());
        let mut after = Vec::new();
        from.before_reading(&mut after);
        to.before_writing(&mut after);
        let submitted = self.operate(n_bytes, &after, |raw| {
            // SAFETY: that many bytes lie at both places, which are different blocks.
            unsafe { result::memcpy_dtod_async(target, source, n_bytes, raw) }
                .during("cuMemcpyDtoDAsync")
        })?;
        if let Some(point) = submitted {
            from.note_read(point);
            to.note_written(point);
        }
        Ok(())
    }

    /// Sets every byte of `memory`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fill(&self, value: u8, memory: &mut Memory) -> Result<(), DeviceError> {
        self.assert_own(memory);
        let (target, n_bytes) = (memory.address(), memory.n_bytes());
        let mut after = Vec::new();
        memory.before_writing(&mut after);
        let submitted = self.operate(n_bytes, &after, |raw| {
            // SAFETY: that many bytes lie there.
            unsafe { result::memset_d8_async(target, value, n_bytes, raw) }
                .during("cuMemsetD8Async")
        })?;
        submitted.into_iter().for_each(|point| memory.note_written(point));
        Ok(())
    }

    /// Submits an operation on the calling thread's stream, unless it is on no bytes.
    fn operate(
        &self,
        n_bytes: usize,
        after: &[Point],
        operate: impl FnOnce(sys::CUstream) -> Result<(), DeviceError>,
    ) -> Result<Option<Point>, DeviceError> {
        if n_bytes == 0 {
            return Ok(None);
        }
        let (stream, all) = self.streams()?;
        let mut state = stream.lock();
        stream.submit(&mut state, &all, after, operate).map(Some)
    }

    /// Submits calls of a library that keeps a handle a stream, on the calling thread's.
    ///
    /// The handle is made by `attach`, given the raw stream, when the stream first needs one. `operate` gets
    /// it with the addresses of `reads` and of `write`.
    ///
    /// # Errors
    /// Those of the closures and of the driver.
    /// # Panics
    /// If another type of handle was attached.
    /// # Safety
    /// What `operate` submits goes to the stream of the handle, touches no memory but that, and stays inside
    /// of it.
    pub unsafe fn submit_with<H: Send + 'static>(
        &self,
        attach: impl FnOnce(sys::CUstream) -> Result<H, DeviceError>,
        reads: &[&Memory],
        write: &mut Memory,
        operate: impl FnOnce(&H, &[u64], u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let (stream, all) = self.streams()?;
        let mut after = Vec::new();
        reads.iter().chain([&&*write]).for_each(|memory| self.assert_own(memory));
        reads.iter().for_each(|memory| memory.before_reading(&mut after));
        write.before_writing(&mut after);
        let addresses: Vec<u64> = reads.iter().map(|memory| memory.address()).collect();
        let mut state = stream.lock();
        // Taken out while it is used, since the stream's state is borrowed then.
        let attached = match state.attached.take() {
            Some(attached) => attached,
            None => {
                self.inner().context.bind_to_thread().during("cuCtxSetCurrent")?;
                Box::new(attach(stream.raw())?)
            }
        };
        let handle = attached.downcast_ref::<H>().expect("one type of handle a stream");
        let submitted = stream
            .submit(&mut state, &all, &after, |_| operate(handle, &addresses, write.address()));
        state.attached = Some(attached);
        drop(state);
        let point = submitted?;
        reads.iter().for_each(|memory| memory.note_read(point));
        write.note_written(point);
        Ok(())
    }

    /// Blocks until what was last written to `memory` is there.
    ///
    /// # Errors
    /// What the driver says of it or of an earlier operation.
    pub fn wait_for(&self, memory: &Memory) -> Result<(), DeviceError> {
        match memory.writer() {
            Some(point) => self.stream(point.stream).0.wait_for(point.ticket),
            None => Ok(()),
        }
    }
}

/// Waits until nobody uses a piece, and fills it.
fn filled(
    stream: &Stream,
    state: &mut State,
    slot: usize,
    bytes: &[u8],
) -> Result<*const u8, DeviceError> {
    let place = cleared(stream, state, slot, bytes.len())?;
    // SAFETY: `cleared` gave room for that many bytes, and nobody else has them.
    unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(place)
}

/// Waits until nobody uses a piece.
fn cleared(
    stream: &Stream,
    state: &mut State,
    slot: usize,
    n_bytes: usize,
) -> Result<*mut u8, DeviceError> {
    let piece = &mut state.staging.pieces[slot];
    if let Some(ticket) = piece.ticket.take() {
        stream.wait_for(ticket)?;
    }
    stream.bind()?;
    Ok(piece.first(n_bytes)?.as_mut_ptr())
}

/// Waits for a piece, and takes the bytes that have come.
fn take(
    stream: &Stream,
    state: &mut State,
    slot: usize,
    bytes: &mut [u8],
) -> Result<(), DeviceError> {
    let piece = &mut state.staging.pieces[slot];
    if let Some(ticket) = piece.ticket.take() {
        stream.wait_for(ticket)?;
    }
    bytes.copy_from_slice(piece.first(bytes.len())?);
    Ok(())
}
