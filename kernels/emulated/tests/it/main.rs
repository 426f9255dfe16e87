//! The kernels on the emulated device, against the CPU backend and the plain codec.

mod attention;
mod codec;
mod decoding;
mod device;
mod interface;
mod loss;
mod rows;
mod sparse;
mod sums;
mod ways;
