//! Rows of a matrix, side by side.
//!
//! Specification: out[i] = x[rows[i]].
//! Shapes: x: any x n_cols; rows: n_rows; out: n_rows x n_cols.
//! Bytes: 8 n_cols + 4 a row.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL gather_rows(const float* __restrict__ x, const u32* __restrict__ rows, float* __restrict__ out,
                   u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(out, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float* from = x + (u64)rows[row] * n_cols;
        float* to = out + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes)
            store4(to + column, load4(from + column, n_cols - column, wide), n_cols - column, wide);
    }
}
