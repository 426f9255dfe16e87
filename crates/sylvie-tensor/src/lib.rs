//! The operations of graph neural networks on row-major f32 matrices, and the CPU backend.
//!
//! [`Backend`] is the seam between models and machines: about forty primitives, each defined by its
//! plain CPU version. [`Wire`] adds what exchanging rows needs: encoding, selecting and decoding them
//! as bytes. Neither knows layers, ranks or epochs.
//!
//! Results do not depend on the number of threads: every sum is taken in an order that follows from
//! the shapes alone.
//!
//! ```
//! use sylvie_tensor::{Backend, CpuBackend, Mode};
//!
//! let backend = CpuBackend::new(1);
//! let a = backend.upload(2, 2, &[1.0, 2.0, 3.0, 4.0]);
//! let b = backend.upload(2, 1, &[1.0, 10.0]);
//! let mut product = backend.zeros(2, 1);
//! backend.matmul(&a, &b, Mode::Assign, &mut product);
//! assert_eq!(backend.download(&product), [21.0, 43.0]);
//! ```

mod backend;
mod cpu;
mod gathering;
mod operands;
mod wire;

pub use backend::Backend;
pub use cpu::{BufferUse, CpuAdjacency, CpuBackend, CpuMatrix, CpuPacked, CpuSparse};
pub use gathering::{Gather, UnknownGather};
pub use operands::{AdamStep, Attention, AttentionGrads, AttentionRows, Mode, SumFactors};
pub use wire::Wire;

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
