//! Messages that stay on the device.

use crate::{Device, DeviceError, Memory};

/// Bytes of a message in a device's memory, or none at all.
///
/// As with all [`Memory`], whoever uses them next waits for whoever wrote them.
///
/// # Example
/// ```
/// use sylvie_device::{Device, DeviceBytes};
/// # sylvie_standins::install();
///
/// let device = Device::open(0)?;
/// let message = DeviceBytes::new(device.upload(&[1, 2, 3])?);
/// assert_eq!(message.n_bytes(), 3);
/// let memory = message.resized(&device, 2)?; // for the next message
/// assert_eq!((memory.n_bytes(), device.memory_use().n_allocated), (2, 1));
/// # Ok::<(), sylvie_device::DeviceError>(())
/// ```
#[derive(Debug, Default)]
pub struct DeviceBytes {
    memory: Option<Memory>,
}

impl DeviceBytes {
    /// The memory as a message.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        Self { memory: Some(memory) }
    }

    /// Number of bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::n_bytes)
    }

    /// The bytes, where there are any.
    #[must_use]
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// The bytes, to be written.
    pub fn memory_mut(&mut self) -> Option<&mut Memory> {
        self.memory.as_mut()
    }

    /// Memory of `n_bytes` on `device`, this one where it lies there and has the room. What it holds is
    /// unspecified.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn resized(self, device: &Device, n_bytes: usize) -> Result<Memory, DeviceError> {
        if let Some(mut memory) = self.memory
            && memory.device() == device
            && memory.try_resize(n_bytes)
        {
            return Ok(memory);
        }
        device.allocate(n_bytes)
    }
}
