//! CUDA devices: memory in pools, streams that keep their order, kernels by name.
//!
//! Every library of NVIDIA's is loaded when it is first needed, so that this builds and runs anywhere;
//! without a driver [`Device::open`] says what was looked for. Each host thread submits to a stream of its
//! own, and [`Memory`] knows the operations on it that are under way: two threads can share it without
//! naming an event, and neither waits for work that is not its own.
//!
//! What this crate must never know: matrices, rows, codecs, ranks.

mod copy;
mod device;
mod error;
mod launch;
mod library;
mod memory;
mod message;
mod staging;
mod stream;

pub use cudarc::driver::sys::CUstream;
pub use device::{Device, DeviceInfo, OwnStream, Submitted, devices, driver_version};
pub use error::DeviceError;
pub use launch::Arg;
pub use library::Library;
pub use memory::{Memory, MemoryUse};
pub use message::DeviceBytes;

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
