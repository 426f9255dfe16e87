//! Sums over neighbours and products with sparse matrices. The specification is `CpuBackend` of `sylvie-tensor`.

use crate::modules::kernels;

kernels! {
    /// `out[rows[p]] += sum of column_scale[u] * x[u]` over the columns `u` of entry `p`, in their order:
    /// `Backend::aggregate`, bit for bit. A column whose factor is 0 is not read.
    ///
    /// # Shapes
    /// `indptr` `n_positions + 1`; `columns` one entry an edge; `rows` (optional: row `p`) `n_positions`; `column_scale`
    /// (optional: 1) one entry a column; `x` columns x `n_cols`; `out` any number of rows x `n_cols`. Launch with `n_positions`,
    /// `n_cols`.
    /// # Cost
    /// A row of `x` read for each edge; rows of `out` that are named read and written once.
    AGGREGATE = AGGREGATE "aggregate" Rows (
        indptr: U64s, columns: U32s, rows: U32s, column_scale: F32s, x: F32s, out: F32s,
        n_positions: U32, n_cols: U32,
    );
    /// `out[u] += column_scale[u] * sum of dy[v]` over the readers `v` of column `u`, in their order:
    /// `Backend::aggregate_transposed`, bit for bit. A column whose factor is 0 is left as it is.
    ///
    /// # Shapes
    /// `indptr` `n_columns + 1`; `readers` one entry an edge; `column_scale` (optional: 1) `n_columns`; `dy` any number of
    /// rows x `n_cols`; `out` `n_columns x n_cols`. Launch with `n_columns`, `n_cols`.
    AGGREGATE_TRANSPOSED = AGGREGATE "aggregate_transposed" Rows (
        indptr: U64s, readers: U32s, column_scale: F32s, dy: F32s, out: F32s, n_columns: U32, n_cols: U32,
    );
    /// `out (+)= a b` with a sparse `a`, bit for bit: `Backend::sparse_matmul`, and with `places` its transposed.
    ///
    /// # Shapes
    /// `indptr` `n_rows + 1`; `columns` one entry a value: row of `b`; `places` (optional: in order) one entry a value: where it
    /// stands in `values`; `b` any number of rows x `n_cols`; `out` `n_rows x n_cols`, assigned (`add` = 0) or added to (1). Launch with
    /// `n_rows`, `n_cols`.
    SPARSE_PRODUCT = SPARSE_PRODUCT "sparse_product" Rows (
        indptr: U64s, columns: U32s, places: U64s, values: F32s, b: F32s, out: F32s,
        n_rows: U32, n_cols: U32, add: U32,
    );
}
