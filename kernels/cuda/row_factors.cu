//! Factors of rows, and a bias for all rows.
//!
//! Specification: `Backend::scale_rows`, `add_scaled_rows` and `add_bias` of sylvie-tensor, bit for bit.
//! Shapes: x, out: n_rows x n_cols; factors: n_rows; bias: n_cols.
//! Bytes: 8 n_cols + 4 a row (add_scaled_rows: 12 n_cols + 4).
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL scale_rows(const float* __restrict__ factors, float* __restrict__ x, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float factor = factors[row];
        float* values = x + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            const float4 scaled =
                map4(load4(values + column, n, wide), [factor](float value) { return value * factor; });
            store4(values + column, scaled, n, wide);
        }
    }
}

KERNEL add_scaled_rows(const float* __restrict__ x, const float* __restrict__ factors,
                       float* __restrict__ out, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(out, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float factor = factors[row];
        const float* values = x + row * n_cols;
        float* sums = out + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            const float4 sum =
                add_scaled4(load4(sums + column, n, wide), factor, load4(values + column, n, wide));
            store4(sums + column, sum, n, wide);
        }
    }
}

KERNEL add_bias(const float* __restrict__ bias, float* __restrict__ x, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(bias, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        float* values = x + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            store4(values + column, add4(load4(values + column, n, wide), load4(bias + column, n, wide)), n,
                   wide);
        }
    }
}
