//! The CUDA kernels on the CPU, every meeting and access checked: for tests.
//!
//! ```
//! use sylvie_kernels_emulated::{Argument, Buffer, Order, launch};
//!
//! let x = Buffer::from_values(&[1.0_f32, -2.0, 3.0]);
//! let arguments = [Argument::from(&x), Argument::U64(3)];
//! launch(&sylvie_kernels::RELU, (1, 3), &arguments, Order::Forward).unwrap();
//! assert_eq!(x.values::<f32>(), [1.0, 0.0, 3.0]);
//! ```

mod buffer;
mod launch;
pub mod raw;

pub use buffer::{Buffer, Element};
pub use launch::{Argument, LaunchError, Order, launch, launch_grid};
