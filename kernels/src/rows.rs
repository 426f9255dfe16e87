//! Rows moved, scaled, summed and normalised. The specification is `CpuBackend` of `sylvie-tensor`.

use crate::modules::kernels;

kernels! {
    /// `out[i] = x[rows[i]]`.
    ///
    /// # Shapes
    /// `rows` `n_rows`; `x` any number of rows x `n_cols`; `out` `n_rows x n_cols`. Launch with `n_rows`, `n_cols`.
    GATHER_ROWS = GATHER "gather_rows" Rows (x: F32s, rows: U32s, out: F32s, n_rows: U32, n_cols: U32);
    /// `out[rows[i]] += x[i]`, for distinct `rows`: `Backend::scatter_add`.
    ///
    /// # Shapes
    /// `x` `n_rows x n_cols`; `rows` `n_rows`; `out` any number of rows x `n_cols`. Launch with `n_rows`, `n_cols`.
    SCATTER_ADD = SCATTER "scatter_add" Rows (x: F32s, rows: U32s, out: F32s, n_rows: U32, n_cols: U32);
    /// [`SCATTER_ADD`] row after row, for `rows` that repeat. Launch with 1, `n_cols`: a thread takes a column
    /// through all rows, so that this is slow where columns are few.
    SCATTER_ADD_IN_ORDER = SCATTER "scatter_add_in_order" Values (
        x: F32s, rows: U32s, out: F32s, n_rows: U32, n_cols: U32,
    );
    /// Each row of `x` times its factor, in place: `Backend::scale_rows`.
    ///
    /// # Shapes
    /// `factors` `n_rows`; `x` `n_rows x n_cols`. Launch with `n_rows`, `n_cols`.
    SCALE_ROWS = ROW_FACTORS "scale_rows" Rows (factors: F32s, x: F32s, n_rows: U32, n_cols: U32);
    /// `out[i] += factors[i] * x[i]`: `Backend::add_scaled_rows`.
    ///
    /// # Shapes
    /// `x`, `out` `n_rows x n_cols`; `factors` `n_rows`. Launch with `n_rows`, `n_cols`.
    ADD_SCALED_ROWS = ROW_FACTORS "add_scaled_rows" Rows (
        x: F32s, factors: F32s, out: F32s, n_rows: U32, n_cols: U32,
    );
    /// Adds `bias` to each row of `x`: `Backend::add_bias`.
    ///
    /// # Shapes
    /// `bias` `n_cols`; `x` `n_rows x n_cols`. Launch with `n_rows`, `n_cols`.
    ADD_BIAS = ROW_FACTORS "add_bias" Rows (bias: F32s, x: F32s, n_rows: U32, n_cols: U32);
    /// One pass of `Backend::column_sums`: row `c` of `out` becomes (`add` = 0), or has added to it (1), the sum of rows
    /// `512 c ..` of `x`.
    ///
    /// A matrix of more than [`crate::TILE_ROWS`] rows takes several passes, all but the last of which assign
    /// to scratch of `n_rows.div_ceil(TILE_ROWS)` rows.
    ///
    /// # Shapes
    /// `x` `n_rows x n_cols`; `out` `ceil(n_rows / 512) x n_cols`. Launch with `n_rows`, `n_cols`.
    COLUMN_SUMS = COLUMN_SUMS "column_sums" Tiles (x: F32s, out: F32s, n_rows: U32, n_cols: U32, add: U32);
    /// [`COLUMN_SUMS`] of the products `x * y`, value by value: with it and further passes of [`COLUMN_SUMS`],
    /// the gradient of LayerNorm's gain.
    COLUMN_PRODUCTS = COLUMN_SUMS "column_products" Tiles (
        x: F32s, y: F32s, out: F32s, n_rows: U32, n_cols: U32, add: U32,
    );
    /// `average = decay * average + (1 - decay) * x`, nothing fused: `Backend::smooth`.
    ///
    /// # Shapes
    /// `x`, `average` `n_values`. Launch with 1, `n_values`.
    SMOOTH = SMOOTH "smooth" Vectors (x: F32s, average: F32s, n_values: U64, decay: F32);
    /// `max(x, 0)` in place, NaN kept: `Backend::relu`. Launch with 1, `n_values`, or rows and columns.
    RELU = RELU "relu" Vectors (x: F32s, n_values: U64);
    /// `y = max(x * gain + offset, 0)`, NaN kept, nothing fused: `Backend::affine_relu`.
    ///
    /// # Shapes
    /// `gain`, `offset` `n_cols`; `x`, `y` `n_rows x n_cols`. Launch with `n_rows`, `n_cols`.
    AFFINE_RELU = RELU "affine_relu" Rows (
        gain: F32s, offset: F32s, x: F32s, y: F32s, n_rows: U32, n_cols: U32,
    );
    /// Zeroes `dy` where `y` is not above 0: `Backend::relu_backward`. Launch with 1, `n_values`.
    RELU_BACKWARD = RELU "relu_backward" Vectors (y: F32s, dy: F32s, n_values: U64);
    /// Drops values whose sixteen bits are below `threshold`, scales the others, in place: `Backend::dropout`.
    ///
    /// `threshold` is the rate in 65536ths, rounded, at most 65535; `scale` is `65536 / (65536 - threshold)`.
    ///
    /// # Shapes
    /// `keys` `n_rows`; `x` `n_rows x n_cols`. Launch with `n_rows`, `n_cols`.
    DROPOUT = DROPOUT "dropout" Rows (
        keys: U32s, x: F32s, n_rows: U32, n_cols: U32, key0: U32, key1: U32, epoch: U32, tag: U32,
        threshold: U32, scale: F32,
    );
    /// [`DROPOUT`] of the stored values of a sparse matrix, into `out`: `Backend::sparse_dropout`.
    ///
    /// # Shapes
    /// `indptr` `n_rows + 1`; `columns`, `values`, `out` one entry a value; `keys` `n_rows`. Launch with `n_rows`, 128.
    SPARSE_DROPOUT = DROPOUT "sparse_dropout" Rows (
        indptr: U64s, columns: U32s, keys: U32s, values: F32s, out: F32s, n_rows: U32,
        key0: U32, key1: U32, epoch: U32, tag: U32, threshold: U32, scale: F32,
    );
    /// Normalises each row of `x` in place, and keeps the normalised rows and the inverse deviations:
    /// `Backend::layer_norm`.
    ///
    /// # Shapes
    /// `gain`, `offset` `n_cols`; `x`, `normalised` `n_rows x n_cols`; `inverse` `n_rows`. Launch with `n_rows`, `n_cols`.
    LAYER_NORM = LAYER_NORM "layer_norm" Rows (
        gain: F32s, offset: F32s, x: F32s, normalised: F32s, inverse: F32s, n_rows: U32, n_cols: U32,
    );
    /// Turns `dy` into `dx` in place: the part of `Backend::layer_norm_backward` that goes by rows. The gradients of
    /// offset and gain are [`COLUMN_SUMS`] and [`COLUMN_PRODUCTS`] of `dy` as it was before.
    ///
    /// # Shapes
    /// As [`LAYER_NORM`]; `dy` `n_rows x n_cols`. Launch with `n_rows`, `n_cols`.
    LAYER_NORM_BACKWARD = LAYER_NORM "layer_norm_backward" Rows (
        gain: F32s, normalised: F32s, inverse: F32s, dy: F32s, n_rows: U32, n_cols: U32,
    );
}
