//! The kernels on the emulated device, against the CPU backend and the plain codec.
