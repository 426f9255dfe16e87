//! Work on one row at a time: factors, sums, LayerNorm, ReLU, dropout.
#![allow(unsafe_code)]

use sylvie_device::{Arg, Device};
use sylvie_kernels::{
    ADD_BIAS, ADD_SCALED_ROWS, AFFINE_RELU, COLUMN_PRODUCTS, COLUMN_SUMS, DROPOUT, Kernel,
    LAYER_NORM, LAYER_NORM_BACKWARD, RELU, RELU_BACKWARD, SCALE_ROWS, SCATTER_ADD,
    SCATTER_ADD_IN_ORDER, SMOOTH, SPARSE_DROPOUT, TILE_ROWS,
};
use sylvie_random::Family;
use sylvie_tensor::Mode;

use crate::matrix::assert_same_shape;
use crate::{CudaIndex, CudaMatrix, CudaSparse, count, done};

/// Submits a kernel whose arguments have been held against each other.
///
/// # Safety
/// As [`Device::launch`].
pub(crate) unsafe fn launch(
    device: &Device,
    kernel: &'static Kernel,
    work: (usize, usize),
    args: &mut [Arg<'_>],
) {
    // SAFETY: the caller's promise.
    done(unsafe { device.launch(kernel, work, args) });
}

/// The sizes of a matrix as a kernel's last two arguments.
fn sizes(x: &CudaMatrix) -> [Arg<'static>; 2] {
    [Arg::U32(count(x.n_rows())), Arg::U32(count(x.n_cols()))]
}

pub(crate) fn scale_rows(factors: &CudaMatrix, x: &mut CudaMatrix) {
    assert_eq!(factors.shape(), (x.n_rows(), 1), "shape of row factors");
    let (device, [n_rows, n_cols]) = (x.memory.device().clone(), sizes(x));
    let work = x.shape();
    let mut args = [Arg::Read(&factors.memory), Arg::Write(&mut x.memory), n_rows, n_cols];
    // SAFETY: a factor a row (asserted).
    unsafe { launch(&device, &SCALE_ROWS, work, &mut args) };
}

pub(crate) fn add_scaled_rows(x: &CudaMatrix, factors: &CudaMatrix, out: &mut CudaMatrix) {
    assert_same_shape(x, out);
    assert_eq!(factors.shape(), (x.n_rows(), 1), "shape of row factors");
    let (device, [n_rows, n_cols]) = (x.memory.device().clone(), sizes(x));
    let (x_arg, factors) = (Arg::Read(&x.memory), Arg::Read(&factors.memory));
    let mut args = [x_arg, factors, Arg::Write(&mut out.memory), n_rows, n_cols];
    // SAFETY: shapes alike, and a factor a row (asserted).
    unsafe { launch(&device, &ADD_SCALED_ROWS, x.shape(), &mut args) };
}

pub(crate) fn add_bias(bias: &CudaMatrix, x: &mut CudaMatrix) {
    assert_eq!(bias.shape(), (1, x.n_cols()), "shape of a bias");
    let (device, [n_rows, n_cols]) = (x.memory.device().clone(), sizes(x));
    let work = x.shape();
    let mut args = [Arg::Read(&bias.memory), Arg::Write(&mut x.memory), n_rows, n_cols];
    // SAFETY: a value a column (asserted).
    unsafe { launch(&device, &ADD_BIAS, work, &mut args) };
}

pub(crate) fn column_sums(x: &CudaMatrix, mode: Mode, out: &mut CudaMatrix) {
    assert_eq!(out.shape(), (1, x.n_cols()), "shape of column sums");
    in_passes(x.n_rows(), mode, out, |n_rows, add, target| {
        let n_cols = x.n_cols();
        let mut args = [
            Arg::Read(&x.memory),
            Arg::Write(&mut target.memory),
            Arg::U32(count(n_rows)),
            Arg::U32(count(n_cols)),
            Arg::U32(add),
        ];
        // SAFETY: `in_passes` gives a target of as many rows as there are tiles.
        unsafe { launch(x.memory.device(), &COLUMN_SUMS, (n_rows, n_cols), &mut args) };
    });
}

fn column_products(x: &CudaMatrix, y: &CudaMatrix, out: &mut CudaMatrix) {
    in_passes(x.n_rows(), Mode::Assign, out, |n_rows, add, target| {
        let n_cols = x.n_cols();
        let mut args = [
            Arg::Read(&x.memory),
            Arg::Read(&y.memory),
            Arg::Write(&mut target.memory),
            Arg::U32(count(n_rows)),
            Arg::U32(count(n_cols)),
            Arg::U32(add),
        ];
        // SAFETY: shapes alike (asserted by the caller), and a target as above.
        unsafe { launch(x.memory.device(), &COLUMN_PRODUCTS, (n_rows, n_cols), &mut args) };
    });
}

/// Sums `n_rows` rows tile by tile: `first` makes a row of its target of each tile, later passes sum those,
/// until the last one goes to `out`, of one row. `first` gets the number of rows and whether to add.
pub(crate) fn in_passes(
    n_rows: usize,
    mode: Mode,
    out: &mut CudaMatrix,
    first: impl Fn(usize, u32, &mut CudaMatrix),
) {
    let add = u32::from(mode == Mode::Add);
    if n_rows == 0 && mode == Mode::Assign {
        out.fill_with_zeros();
        return;
    }
    let n_tiles = n_rows.div_ceil(TILE_ROWS as usize);
    if n_tiles <= 1 {
        return first(n_rows, add, out);
    }
    let mut partial = CudaMatrix::new(out.memory.device(), n_tiles, out.n_values());
    first(n_rows, 0, &mut partial);
    // A row of `out` need not be a row to its caller; to a sum of columns it is.
    let sums = |add, target: &mut CudaMatrix, partial: &CudaMatrix| {
        let mut args = [
            Arg::Read(&partial.memory),
            Arg::Write(&mut target.memory),
            Arg::U32(count(partial.n_rows())),
            Arg::U32(count(partial.n_cols())),
            Arg::U32(add),
        ];
        // SAFETY: the target has a row for each tile of `partial`, of as many columns.
        unsafe { launch(partial.memory.device(), &COLUMN_SUMS, partial.shape(), &mut args) };
    };
    while partial.n_rows() > TILE_ROWS as usize {
        let n_tiles = partial.n_rows().div_ceil(TILE_ROWS as usize);
        let mut next = CudaMatrix::new(out.memory.device(), n_tiles, out.n_values());
        sums(0, &mut next, &partial);
        partial = next;
    }
    sums(add, out, &partial);
}

pub(crate) fn scatter_add(x: &CudaMatrix, rows: &CudaIndex, out: &mut CudaMatrix) {
    let (kernel, work) = if rows.is_distinct() {
        (&SCATTER_ADD, x.shape())
    } else {
        (&SCATTER_ADD_IN_ORDER, (1, x.n_cols()))
    };
    scatter_with(kernel, work, x, rows, out);
}

pub(crate) fn scatter_with(
    kernel: &'static Kernel,
    work: (usize, usize),
    x: &CudaMatrix,
    rows: &CudaIndex,
    out: &mut CudaMatrix,
) {
    assert_eq!(rows.len(), x.n_rows(), "places and rows to add");
    assert_eq!(x.n_cols(), out.n_cols(), "widths of rows added");
    rows.assert_below(out.n_rows(), "rows to add to");
    let [n_rows, n_cols] = sizes(x);
    let (x_arg, rows) = (Arg::Read(&x.memory), Arg::Read(&rows.memory));
    let mut args = [x_arg, rows, Arg::Write(&mut out.memory), n_rows, n_cols];
    // SAFETY: a place a row, inside of `out`, whose rows are as wide (asserted).
    unsafe { launch(x.memory.device(), kernel, work, &mut args) };
}

pub(crate) fn smooth(decay: f32, x: &CudaMatrix, average: &mut CudaMatrix) {
    assert_same_shape(x, average);
    let n_values = x.n_values();
    let mut args = [
        Arg::Read(&x.memory),
        Arg::Write(&mut average.memory),
        Arg::U64(n_values as u64),
        Arg::F32(decay),
    ];
    // SAFETY: shapes alike (asserted).
    unsafe { launch(x.memory.device(), &SMOOTH, (1, n_values), &mut args) };
}

pub(crate) fn relu(x: &mut CudaMatrix) {
    let (device, n_values) = (x.memory.device().clone(), x.n_values());
    let mut args = [Arg::Write(&mut x.memory), Arg::U64(n_values as u64)];
    // SAFETY: that many values are there.
    unsafe { launch(&device, &RELU, (1, n_values), &mut args) };
}

pub(crate) fn relu_backward(y: &CudaMatrix, dy: &mut CudaMatrix) {
    assert_same_shape(y, dy);
    let n_values = y.n_values();
    let mut args = [Arg::Read(&y.memory), Arg::Write(&mut dy.memory), Arg::U64(n_values as u64)];
    // SAFETY: shapes alike (asserted).
    unsafe { launch(y.memory.device(), &RELU_BACKWARD, (1, n_values), &mut args) };
}

pub(crate) fn affine_relu(gain: &CudaMatrix, offset: &CudaMatrix, x: &CudaMatrix) -> CudaMatrix {
    let (n_rows, width) = x.shape();
    assert_eq!(gain.shape(), (1, width), "shape of a gain");
    assert_eq!(offset.shape(), (1, width), "shape of an offset");
    let device = x.memory.device().clone();
    let mut y = CudaMatrix::new(&device, n_rows, width);
    let mut args = [
        Arg::Read(&gain.memory),
        Arg::Read(&offset.memory),
        Arg::Read(&x.memory),
        Arg::Write(&mut y.memory),
        Arg::U32(count(n_rows)),
        Arg::U32(count(width)),
    ];
    // SAFETY: a gain and an offset a column (asserted); what is written was just made of that size.
    unsafe { launch(&device, &AFFINE_RELU, (n_rows, width), &mut args) };
    y
}

pub(crate) fn layer_norm(
    gain: &CudaMatrix,
    offset: &CudaMatrix,
    x: &mut CudaMatrix,
) -> (CudaMatrix, CudaMatrix) {
    let (n_rows, width) = x.shape();
    assert_eq!(gain.shape(), (1, width), "shape of a gain");
    assert_eq!(offset.shape(), (1, width), "shape of an offset");
    let device = x.memory.device().clone();
    let mut normalised = CudaMatrix::new(&device, n_rows, width);
    if width == 0 {
        return (normalised, CudaMatrix::zeros(&device, n_rows, 1));
    }
    let mut inverse = CudaMatrix::new(&device, n_rows, 1);
    let mut args = [
        Arg::Read(&gain.memory),
        Arg::Read(&offset.memory),
        Arg::Write(&mut x.memory),
        Arg::Write(&mut normalised.memory),
        Arg::Write(&mut inverse.memory),
        Arg::U32(count(n_rows)),
        Arg::U32(count(width)),
    ];
    // SAFETY: a gain and an offset a column (asserted); what is written was just made of that size.
    unsafe { launch(&device, &LAYER_NORM, (n_rows, width), &mut args) };
    (normalised, inverse)
}

pub(crate) fn layer_norm_backward(
    gain: &CudaMatrix,
    (normalised, inverse): (&CudaMatrix, &CudaMatrix),
    dy: &mut CudaMatrix,
    dgain: &mut CudaMatrix,
    doffset: &mut CudaMatrix,
) {
    let (n_rows, width) = dy.shape();
    assert_same_shape(normalised, dy);
    assert_eq!(inverse.shape(), (n_rows, 1), "inverse deviations");
    assert_eq!(gain.shape(), (1, width), "shape of a gain");
    assert_eq!(dgain.shape(), (1, width), "shape of a gain's gradient");
    column_sums(dy, Mode::Assign, doffset);
    column_products(dy, normalised, dgain);
    let device = dy.memory.device().clone();
    let mut args = [
        Arg::Read(&gain.memory),
        Arg::Read(&normalised.memory),
        Arg::Read(&inverse.memory),
        Arg::Write(&mut dy.memory),
        Arg::U32(count(n_rows)),
        Arg::U32(count(width)),
    ];
    // SAFETY: shapes alike, a value a row and a column (asserted).
    unsafe { launch(&device, &LAYER_NORM_BACKWARD, (n_rows, width), &mut args) };
}

/// A dropout rate in 65536ths, and the scale of what stays.
///
/// # Panics
/// If `rate` is not in [0, 1).
fn threshold(rate: f32) -> (u32, f32) {
    assert!((0.0..1.0).contains(&rate), "a dropout rate of {rate} is not in [0, 1)");
    let threshold = ((rate * 65_536.0).round() as u32).min(65_535);
    (threshold, 65_536.0 / (65_536 - threshold) as f32)
}

pub(crate) fn dropout(rate: f32, draws: Family, keys: &CudaIndex, x: &mut CudaMatrix) {
    assert_eq!(keys.len(), x.n_rows(), "keys and rows of dropout");
    let (threshold, scale) = threshold(rate);
    let (device, work, [n_rows, n_cols]) = (x.memory.device().clone(), x.shape(), sizes(x));
    let mut args = [
        Arg::Read(&keys.memory),
        Arg::Write(&mut x.memory),
        n_rows,
        n_cols,
        Arg::U32(draws.key[0]),
        Arg::U32(draws.key[1]),
        Arg::U32(draws.epoch),
        Arg::U32(draws.tag),
        Arg::U32(threshold),
        Arg::F32(scale),
    ];
    // SAFETY: a key a row (asserted).
    unsafe { launch(&device, &DROPOUT, work, &mut args) };
}

/// Columns by which the work of a sparse row is shared out.
const SPARSE_WIDTH: usize = 128;

pub(crate) fn sparse_dropout(
    rate: f32,
    draws: Family,
    keys: &CudaIndex,
    x: &CudaSparse,
) -> CudaSparse {
    let structure = &*x.structure;
    assert_eq!(keys.len(), structure.n_rows, "keys and rows of dropout");
    let (threshold, scale) = threshold(rate);
    let device = x.values.device();
    let mut values = done(device.allocate(x.values.n_bytes()));
    let mut args = [
        Arg::Read(&structure.indptr),
        Arg::Read(&structure.indices),
        Arg::Read(&keys.memory),
        Arg::Read(&x.values),
        Arg::Write(&mut values),
        Arg::U32(count(structure.n_rows)),
        Arg::U32(draws.key[0]),
        Arg::U32(draws.key[1]),
        Arg::U32(draws.epoch),
        Arg::U32(draws.tag),
        Arg::U32(threshold),
        Arg::F32(scale),
    ];
    // SAFETY: a key a row (asserted), and values where the structure says.
    unsafe { launch(device, &SPARSE_DROPOUT, (structure.n_rows, SPARSE_WIDTH), &mut args) };
    CudaSparse { structure: x.structure.clone(), values }
}
