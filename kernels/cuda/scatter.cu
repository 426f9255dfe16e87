//! Rows added where they belong.
//!
//! Specification: `Backend::scatter_add` of sylvie-tensor, bit for bit.
//! Shapes: x: n_rows x n_cols; rows: n_rows; out: any x n_cols.
//! Bytes: 12 n_cols + 4 a row.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

/// `rows` are distinct.
KERNEL scatter_add(const float* __restrict__ x, const u32* __restrict__ rows, float* __restrict__ out,
                   u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(out, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float* from = x + row * n_cols;
        float* to = out + (u64)rows[row] * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            store4(to + column, add4(load4(to + column, n, wide), load4(from + column, n, wide)), n, wide);
        }
    }
}

/// A thread takes a column through all rows, so that rows may repeat.
KERNEL scatter_add_in_order(const float* __restrict__ x, const u32* __restrict__ rows,
                            float* __restrict__ out, u32 n_rows, u32 n_cols) {
    for (u64 column = thread_index(); column < n_cols; column += n_threads())
        for (u64 row = 0; row < n_rows; ++row)
            out[(u64)rows[row] * n_cols + column] += x[row * n_cols + column];
}
