//! What a kernel is: its module, entry, arguments, and how its work is shared out.

/// Threads of every block.
pub const BLOCK_THREADS: u32 = 256;
/// Values of `f32` that a thread or lane takes at once: 16 bytes.
pub const VECTOR: u32 = 4;
/// Rows whose sum is one row of a [`Share::Tiles`] kernel's output.
pub const TILE_ROWS: u32 = 512;
/// Columns of a tile.
pub const TILE_COLUMNS: u32 = 128;
/// Values that one block of [`crate::SUM_F64`] adds up.
pub const SUM_VALUES: u32 = 4096;
/// Blocks of a grid at most; every kernel strides over what is left.
const MAX_BLOCKS: u64 = 1 << 20;
const WARP_LANES: u64 = 32;

/// The kernels of one `.cu` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name of the file, without its ending.
    pub name: &'static str,
    /// What `cargo xtask kernels` made of [`Module::source`], for compute capability 8.0 and above.
    pub ptx: &'static str,
    /// The common header and the file in one text, which needs no include path: what NVRTC compiles
    /// where a driver is too old for the PTX.
    pub source: &'static str,
}

/// Options that [`Module::source`] has to be compiled with, besides the architecture: a fused
/// multiplication and addition would give other bytes than the CPU.
pub const COMPILE_OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];

/// Type of one argument.
///
/// # Example
/// ```
/// use sylvie_kernels::{AGGREGATE, Kind};
///
/// assert_eq!((Kind::F32.bytes(), Kind::F32s.bytes()), (4, 8));
/// let n_bytes: usize = AGGREGATE.parameters.iter().map(|parameter| parameter.kind.bytes()).sum();
/// assert!(n_bytes >= 4 * AGGREGATE.parameters.len());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device pointer to `f32`.
    F32s,
    /// Device pointer to `f64`.
    F64s,
    /// Device pointer to `u32`.
    U32s,
    /// Device pointer to `u64`.
    U64s,
    /// Device pointer to bytes.
    U8s,
    /// A 32-bit float by value.
    F32,
    /// A 32-bit number by value.
    U32,
    /// A 64-bit number by value.
    U64,
}

impl Kind {
    /// Bytes that the argument takes in the list of arguments.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            _ => 8,
        }
    }
}

/// One argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the `.cu` file.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// How the work of a kernel is shared out. Whatever the grid, a kernel does all of its work, and gives
/// the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A thread takes four consecutive values of a matrix.
    Vectors,
    /// A thread takes one value of a matrix.
    Values,
    /// [`lanes`] neighbouring lanes of a warp take a row, each four values at a time.
    Rows,
    /// The same with sixteen values a lane instead of four.
    Codes,
    /// A block takes [`TILE_ROWS`] rows of [`TILE_COLUMNS`] columns.
    Tiles,
    /// A block takes [`SUM_VALUES`] values.
    Sums,
}

/// A kernel: where it is found, what it takes, and how it is launched.
///
/// # Example
/// ```
/// use sylvie_kernels::{Kernel, Kind, Module, Parameter, RELU, Share};
///
/// let Kernel { module, entry, parameters, share } = RELU;
/// assert_eq!((entry, share), ("relu", Share::Vectors));
/// assert_eq!(parameters[1], Parameter { name: "n_values", kind: Kind::U64 });
/// let Module { name, ptx, source } = *module;
/// assert_eq!(name, "relu");
/// assert!(ptx.contains(entry) && source.contains(entry)); // for a driver, and for NVRTC
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The file that it stands in.
    pub module: &'static Module,
    /// Its name, the same in PTX.
    pub entry: &'static str,
    /// Its arguments, in order.
    pub parameters: &'static [Parameter],
    /// How its work is shared out.
    pub share: Share,
}

/// A grid of blocks.
///
/// # Example
/// ```
/// use sylvie_kernels::{GATHER_ROWS, Launch};
///
/// // 1000 rows of 16 values, of which four lanes each take one: 64 rows a block.
/// let launch = GATHER_ROWS.launch(1000, 16);
/// let expected = Launch { grid: [16, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
/// assert_eq!(launch, Some(expected));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

/// Lanes of a warp that share a row of `width` values: the smallest power of two that covers it with
/// four values each, 32 at most.
///
/// # Example
/// ```
/// use sylvie_kernels::lanes;
///
/// assert_eq!([1, 4, 5, 64, 1000].map(lanes), [1, 1, 2, 16, 32]);
/// ```
#[must_use]
pub const fn lanes(width: u64) -> u64 {
    let wanted = width.div_ceil(VECTOR as u64);
    if wanted >= WARP_LANES {
        WARP_LANES
    } else if wanted <= 1 {
        1
    } else {
        wanted.next_power_of_two()
    }
}

impl Kernel {
    /// The grid for `n_rows` rows of `width` values; what a row is, the kernel's documentation says.
    /// `None` without work, for CUDA refuses an empty grid.
    #[must_use]
    pub const fn launch(&self, n_rows: u64, width: u64) -> Option<Launch> {
        if n_rows == 0 || width == 0 {
            return None;
        }
        let threads = BLOCK_THREADS as u64;
        let values = n_rows.saturating_mul(width);
        let n_blocks = match self.share {
            Share::Vectors => values.div_ceil(VECTOR as u64).div_ceil(threads),
            Share::Values => values.div_ceil(threads),
            Share::Rows => n_rows.saturating_mul(lanes(width)).div_ceil(threads),
            Share::Codes => n_rows.saturating_mul(lanes(width.div_ceil(4))).div_ceil(threads),
            Share::Tiles => n_rows.div_ceil(TILE_ROWS as u64) * width.div_ceil(TILE_COLUMNS as u64),
            Share::Sums => values.div_ceil(SUM_VALUES as u64),
        };
        let n_blocks = if n_blocks > MAX_BLOCKS { MAX_BLOCKS } else { n_blocks };
        Some(Launch {
            grid: [n_blocks as u32, 1, 1],
            block: [BLOCK_THREADS, 1, 1],
            shared_bytes: 0,
        })
    }
}
