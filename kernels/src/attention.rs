//! Attention over edges with a running softmax. The specification is `CpuBackend` of `sylvie-tensor`.
//!
//! A matrix of heads has `n_heads * width` columns; `source`, `target`, `max`, `sum`, `log_sum`, `dot` and their gradients have
//! `n_heads`. What is launched with `n * n_heads`, `width` takes a head of a row as a row.

use crate::modules::kernels;

kernels! {
    /// `out[i][h] = x[i][h] . weights[h]`: `Backend::attention_scores`.
    ///
    /// # Shapes
    /// `x` `n_rows x (n_heads * width)`; `weights` `n_heads x width`; `out` `n_rows x n_heads`. Launch with `n_rows * n_heads`,
    /// `width`.
    ATTENTION_SCORES = ATTENTION_SCORES "attention_scores" Rows (
        x: F32s, weights: F32s, out: F32s, n_rows: U32, n_heads: U32, width: U32,
    );
    /// `dx[i][h] += dscores[i][h] * weights[h]`: half of `Backend::attention_scores_backward`. Launch with
    /// `n_rows * n_heads`, `width`.
    ATTENTION_SCORES_BACKWARD = ATTENTION_SCORES "attention_scores_backward" Rows (
        weights: F32s, dscores: F32s, dx: F32s, n_rows: U32, n_heads: U32, width: U32,
    );
    /// The other half: row `c` of `out` becomes (`add` = 0), or has added to it (1), the sum of `dscores[i][h] * x[i][h]` over rows
    /// `512 c ..`; further passes are [`crate::COLUMN_SUMS`]. Launch with `n_rows`, `n_heads * width`.
    ATTENTION_WEIGHT_SUMS = ATTENTION_SCORES "attention_weight_sums" Tiles (
        x: F32s, dscores: F32s, out: F32s, n_rows: U32, n_heads: U32, width: U32, add: U32,
    );
    /// `out[i][h] = x[i][h] . y[i][h]`: `Backend::head_dots`. Launch with `n_rows * n_heads`, `width`.
    HEAD_DOTS = HEADS "head_dots" Rows (
        x: F32s, y: F32s, out: F32s, n_rows: U32, n_heads: U32, width: U32,
    );
    /// `out[i] = mean over h of x[i][h]`: `Backend::head_mean`. Launch with `n_rows`, `width`.
    HEAD_MEAN = HEADS "head_mean" Rows (x: F32s, out: F32s, n_rows: U32, n_heads: U32, width: U32);
    /// `out[i][h] = dy[i] / n_heads`: `Backend::head_mean_backward`. Launch with `n_rows`, `width`.
    HEAD_MEAN_BACKWARD = HEADS "head_mean_backward" Rows (
        dy: F32s, out: F32s, n_rows: U32, n_heads: U32, width: U32,
    );

    /// Starts attention with each row's edge to itself; assigns `max`, `sum` and `sums`: `Backend::attention_begin`. Launch
    /// with `n_rows * n_heads`, `width`.
    ATTENTION_BEGIN = ATTENTION "attention_begin" Rows (
        values: F32s, source: F32s, target: F32s, max: F32s, sum: F32s, sums: F32s,
        n_rows: U32, n_heads: U32, width: U32,
    );
    /// Edge softmax fused with aggregation, for the edges of one block: `Backend::attention_add_block`.
    ///
    /// # Shapes
    /// `indptr` `n_positions + 1`; `columns` one entry an edge; `rows` (optional: row `p`) `n_positions`; `values`, `source` of the
    /// block's columns; `target`, `max`, `sum`, `sums` of the local rows. Launch with `n_positions * n_heads`, `width`.
    /// # Cost
    /// A head of `values` and two scores read for each edge and head; statistics and sums once a row.
    ATTENTION_ADD_BLOCK = ATTENTION "attention_add_block" Rows (
        indptr: U64s, columns: U32s, rows: U32s, values: F32s, source: F32s, target: F32s,
        max: F32s, sum: F32s, sums: F32s, n_positions: U32, n_heads: U32, width: U32,
    );
    /// Divides `values` by `sum` and makes `max` the log of the sum: `Backend::attention_finish`. Launch with
    /// `n_rows * n_heads`, `width`.
    ATTENTION_FINISH = ATTENTION "attention_finish" Rows (
        max: F32s, sum: F32s, values: F32s, n_rows: U32, n_heads: U32, width: U32,
    );

    /// Backward of the edges to oneself; adds to `dvalues`, `dsource`, `dtarget`: `Backend::attention_self_backward`. Launch
    /// with `n_rows * n_heads`, `width`.
    ATTENTION_SELF_BACKWARD = ATTENTION_BACKWARD "attention_self_backward" Rows (
        values: F32s, source: F32s, target: F32s, log_sum: F32s, dot: F32s, dy: F32s,
        dvalues: F32s, dsource: F32s, dtarget: F32s, n_rows: U32, n_heads: U32, width: U32,
    );
    /// Backward of a block's edges by column: adds to `dvalues` and `dsource`, and assigns each edge's score gradient
    /// to `dscores`. With [`ATTENTION_ROWS_BACKWARD`] it is `Backend::attention_block_backward`.
    ///
    /// # Shapes
    /// `indptr` `n_columns + 1`; `readers` one entry an edge, local rows; `values`, `source`, `dvalues`, `dsource` of the block's columns;
    /// `target`, `log_sum`, `dot`, `dy` of the local rows; `dscores` edges x `n_heads`. Launch with `n_columns * n_heads`,
    /// `width`.
    ATTENTION_COLUMNS_BACKWARD = ATTENTION_BACKWARD "attention_columns_backward" Rows (
        indptr: U64s, readers: U32s, values: F32s, source: F32s, target: F32s, log_sum: F32s, dot: F32s,
        dy: F32s, dvalues: F32s, dsource: F32s, dscores: F32s,
        n_columns: U32, n_heads: U32, width: U32,
    );
    /// Backward of a block's edges by row: `dtarget[rows[p]] += sum of dscores[edges[e]]` over the edges of entry
    /// `p`, in their order.
    ///
    /// # Shapes
    /// `indptr` `n_positions + 1`; `edges` one entry an edge: where it stands in `dscores`; `rows` (optional: row `p`)
    /// `n_positions`; `dtarget` of the local rows. Launch with `n_positions`, `n_heads`.
    ATTENTION_ROWS_BACKWARD = ATTENTION_BACKWARD "attention_rows_backward" Values (
        indptr: U64s, edges: U64s, rows: U32s, dscores: F32s, dtarget: F32s, n_positions: U32, n_heads: U32,
    );
}
