//! Where messages lie: in the host's memory or on the device.

use std::fmt::Debug;

use sylvie_device::{Device, DeviceBytes, DeviceError, Memory};
use sylvie_lowbit::{DecodeError, DeviceList, RowCodec};

use crate::CudaIndex;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Staged {}
    impl Sealed for super::OnDevice {}
}

/// What a backend's messages are made of: [`Staged`] or [`OnDevice`].
///
/// # Example
/// ```
/// use sylvie_cuda::{CudaBackend, CudaIndex, Messages, OnDevice, Staged};
/// use sylvie_lowbit::{RowCodec, Width};
/// use sylvie_random::{Coordinates, Stream};
/// use sylvie_tensor::{Backend, Wire};
/// # sylvie_standins::install();
///
/// /// Encodes the first of two rows, and gives the message's bytes.
/// fn message<M: Messages>(backend: &CudaBackend<M>) -> Vec<u8> {
///     let x = backend.upload(2, 2, &[0.0, 1.0, 5.0, 7.0]);
///     let [rows, keys]: [CudaIndex; 2] = [[0], [40]].map(|list| backend.upload_index(&list));
///     let codec = RowCodec::new(Width::One);
///     let draws = Coordinates::new(1, Stream::Rounding).family();
///     let old = backend.bytes_from_host(Vec::new());
///     let message = backend.encode_rows(codec, &x, &rows, &keys, draws, old);
///     backend.bytes_to_host(message.expect("finite rows"))
/// }
///
/// let staged = CudaBackend::<Staged>::open(0)?;
/// let on_device = CudaBackend::<OnDevice>::on(staged.device().clone())?;
/// assert_eq!(message(&staged), message(&on_device));
/// # Ok::<(), sylvie_cuda::DeviceError>(())
/// ```
pub trait Messages:
    sealed::Sealed + Clone + Copy + Debug + Default + Send + Sync + 'static
{
    /// A message.
    type Bytes: Send + 'static;

    /// A message of host bytes.
    #[doc(hidden)]
    fn from_host(device: &Device, bytes: Vec<u8>) -> Result<Self::Bytes, DeviceError>;
    /// The bytes of a message on the host.
    #[doc(hidden)]
    fn to_host(bytes: Self::Bytes) -> Result<Vec<u8>, DeviceError>;
    /// Memory for `n_bytes` of a message on the device, and what is left of an old message.
    #[doc(hidden)]
    fn room(
        device: &Device,
        n_bytes: usize,
        old: Self::Bytes,
    ) -> Result<(Memory, Self::Bytes), DeviceError>;
    /// A message of what lies on the device.
    #[doc(hidden)]
    fn send_off(written: Memory, old: Self::Bytes) -> Result<Self::Bytes, DeviceError>;
    /// The encoded rows `positions` of a message of `shape`, as one of their own.
    #[doc(hidden)]
    fn select(
        device: &Device,
        codec: RowCodec,
        message: &Self::Bytes,
        shape: (usize, usize),
        positions: &CudaIndex,
        out: Self::Bytes,
    ) -> Result<Result<Self::Bytes, DecodeError>, DeviceError>;
    /// Calls `read` with the message on the device.
    #[doc(hidden)]
    fn on_device<T>(
        device: &Device,
        bytes: &Self::Bytes,
        read: impl FnOnce(&Memory) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError>;
}

/// Messages are host bytes, which every transport takes; they come and go through pinned memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Staged;

/// Messages stay on the device, for a transport between devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDevice;

impl Messages for Staged {
    type Bytes = Vec<u8>;

    fn from_host(_device: &Device, bytes: Vec<u8>) -> Result<Vec<u8>, DeviceError> {
        Ok(bytes)
    }

    fn to_host(bytes: Vec<u8>) -> Result<Vec<u8>, DeviceError> {
        Ok(bytes)
    }

    fn room(
        device: &Device,
        n_bytes: usize,
        old: Vec<u8>,
    ) -> Result<(Memory, Vec<u8>), DeviceError> {
        Ok((device.allocate(n_bytes)?, old))
    }

    fn send_off(written: Memory, mut old: Vec<u8>) -> Result<Vec<u8>, DeviceError> {
        old.resize(written.n_bytes(), 0);
        written.device().read(&written, &mut old)?;
        Ok(old)
    }

    fn select(
        _device: &Device,
        codec: RowCodec,
        message: &Vec<u8>,
        (n_rows, n_cols): (usize, usize),
        positions: &CudaIndex,
        mut out: Vec<u8>,
    ) -> Result<Result<Vec<u8>, DecodeError>, DeviceError> {
        out.resize(codec.message_bytes(positions.len(), n_cols), 0);
        let selected = codec.select_rows(message, n_rows, n_cols, positions.host(), &mut out);
        Ok(selected.map(|()| out))
    }

    fn on_device<T>(
        device: &Device,
        bytes: &Vec<u8>,
        read: impl FnOnce(&Memory) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        read(&device.upload(bytes)?)
    }
}

impl Messages for OnDevice {
    type Bytes = DeviceBytes;

    fn from_host(device: &Device, bytes: Vec<u8>) -> Result<DeviceBytes, DeviceError> {
        if bytes.is_empty() {
            return Ok(DeviceBytes::default());
        }
        device.upload(&bytes).map(DeviceBytes::new)
    }

    fn to_host(bytes: DeviceBytes) -> Result<Vec<u8>, DeviceError> {
        let mut host = vec![0; bytes.n_bytes()];
        if let Some(memory) = bytes.memory() {
            memory.device().read(memory, &mut host)?;
        }
        Ok(host)
    }

    fn room(
        device: &Device,
        n_bytes: usize,
        old: DeviceBytes,
    ) -> Result<(Memory, DeviceBytes), DeviceError> {
        Ok((old.resized(device, n_bytes)?, DeviceBytes::default()))
    }

    fn send_off(written: Memory, _old: DeviceBytes) -> Result<DeviceBytes, DeviceError> {
        Ok(DeviceBytes::new(written))
    }

    fn select(
        device: &Device,
        codec: RowCodec,
        message: &DeviceBytes,
        shape: (usize, usize),
        positions: &CudaIndex,
        out: DeviceBytes,
    ) -> Result<Result<DeviceBytes, DecodeError>, DeviceError> {
        let n_bytes = codec.message_bytes(positions.len(), shape.1);
        let mut written = out.resized(device, n_bytes)?;
        let list = DeviceList { numbers: &positions.memory, len: positions.len() };
        let selected = Self::on_device(device, message, |message| {
            codec.select_on_device(message, shape, list, &mut written)
        })?;
        Ok(selected.map(|()| DeviceBytes::new(written)))
    }

    fn on_device<T>(
        device: &Device,
        bytes: &DeviceBytes,
        read: impl FnOnce(&Memory) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        match bytes.memory() {
            Some(memory) if memory.device() == device => read(memory),
            // Of another device of this process, or none at all: it comes by the host.
            Some(memory) => {
                let mut host = vec![0; memory.n_bytes()];
                memory.device().read(memory, &mut host)?;
                read(&device.upload(&host)?)
            }
            None => read(&device.allocate(0)?),
        }
    }
}
