//! The CUDA kernels of Sylvie: graph neural networks on row-major matrices of `f32`, and a codec of rows.
//!
//! Plain data, without a dependency and without CUDA: for each kernel its module (PTX and source), entry name,
//! arguments and launch shape. Whoever loads them brings a driver.
//!
//! # Conventions
//! - Matrices are row-major and packed; no argument has a stride. Where rows start at multiples of 16 bytes - the
//!   first does, and the number of columns is a multiple of 4 - they are read and written 16 bytes at a time,
//!   else 4. Outputs overlap no inputs, except where an argument is named as changed in place.
//! - Pointers that may be null (0) are marked *optional*.
//! - Lists of rows, columns and classes are trusted: whoever uploads one holds it against the sizes. Lists of
//!   rows to write (`rows` of a block, of a scatter, of a loss) are distinct, but for
//!   [`SCATTER_ADD_IN_ORDER`].
//! - Blocks have [`BLOCK_THREADS`] threads in x. A kernel does all of its work whatever the grid: the one of
//!   [`Kernel::launch`] is the one to use, and no result depends on it.
//! - No kernel allocates, waits for the host, or adds floats atomically: the same input gives the same bits.
//! - Everything is compiled with [`COMPILE_OPTIONS`]: nothing is fused, so that sums in the CPU's order have
//!   the CPU's bits. Square roots and divisions are rounded correctly; exponentials and logarithms are CUDA's.
//!
//! ```
//! use sylvie_kernels::{RELU, lanes};
//!
//! let launch = RELU.launch(1000, 64).unwrap();
//! assert_eq!((RELU.entry, launch.grid, launch.block), ("relu", [63, 1, 1], [256, 1, 1]));
//! assert!(RELU.module.ptx.contains(RELU.entry));
//! assert_eq!(RELU.launch(0, 64), None);
//! assert_eq!(lanes(64), 16);
//! ```
#![no_std]

mod attention;
mod codec;
mod kernel;
mod loss;
mod modules;
mod rows;
mod sparse;
mod status;

pub use attention::*;
pub use codec::*;
pub use kernel::{
    BLOCK_THREADS, COMPILE_OPTIONS, Kernel, Kind, Launch, Module, Parameter, SUM_VALUES, Share,
    TILE_COLUMNS, TILE_ROWS, VECTOR, lanes,
};
pub use loss::*;
pub use modules::MODULES;
pub use rows::*;
pub use sparse::*;
pub use status::{ACCEPTED, MAX_COLUMNS, Reason, Refusal, refusal};

/// Every kernel, by file.
pub const KERNELS: &[Kernel] = &[
    ENCODE_1,
    ENCODE_2,
    ENCODE_4,
    ENCODE_8,
    ENCODE_F16,
    ENCODE_BF16,
    ENCODE_F32,
    DECODE_1,
    DECODE_2,
    DECODE_4,
    DECODE_8,
    DECODE_ADD_1,
    DECODE_ADD_2,
    DECODE_ADD_4,
    DECODE_ADD_8,
    DECODE_F16,
    DECODE_BF16,
    DECODE_F32,
    DECODE_ADD_F16,
    DECODE_ADD_BF16,
    DECODE_ADD_F32,
    SELECT_ROWS,
    GATHER_ROWS,
    SCATTER_ADD,
    SCATTER_ADD_IN_ORDER,
    SCALE_ROWS,
    ADD_SCALED_ROWS,
    ADD_BIAS,
    COLUMN_SUMS,
    COLUMN_PRODUCTS,
    SMOOTH,
    RELU,
    AFFINE_RELU,
    RELU_BACKWARD,
    DROPOUT,
    SPARSE_DROPOUT,
    LAYER_NORM,
    LAYER_NORM_BACKWARD,
    AGGREGATE,
    AGGREGATE_TRANSPOSED,
    SPARSE_PRODUCT,
    ATTENTION_SCORES,
    ATTENTION_SCORES_BACKWARD,
    ATTENTION_WEIGHT_SUMS,
    HEAD_DOTS,
    HEAD_MEAN,
    HEAD_MEAN_BACKWARD,
    ATTENTION_BEGIN,
    ATTENTION_ADD_BLOCK,
    ATTENTION_FINISH,
    ATTENTION_SELF_BACKWARD,
    ATTENTION_COLUMNS_BACKWARD,
    ATTENTION_ROWS_BACKWARD,
    SOFTMAX_CROSS_ENTROPY,
    BINARY_CROSS_ENTROPY,
    SUM_F64,
    ADAM,
];

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
