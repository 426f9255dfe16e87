//! The operations of graph neural networks on row-major f32 matrices, and the CPU backend
