//! Sums over neighbours, and their backward pass.
//!
//! Specification: `Backend::aggregate` and `aggregate_transposed` of sylvie-tensor, bit for bit: neighbours
//!   are added in their order, nothing is fused.
//! Shapes: indptr: n_positions (n_columns) + 1; columns, readers: one entry an edge; rows (or null):
//!   n_positions; column_scale (or null): one factor a column; x, out: rows of n_cols.
//! Work: up to 32 neighbouring lanes take a row, a lane four columns, four neighbours on their way at once.
//! Bytes: 4 n_cols + 4 an edge (+ 4 for its factor), and 8 n_cols a row of out.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL aggregate(const u64* __restrict__ indptr, const u32* __restrict__ columns,
                 const u32* __restrict__ rows, const float* __restrict__ column_scale,
                 const float* __restrict__ x, float* __restrict__ out, u32 n_positions, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(out, n_cols);
    auto row_of = [=](u64 edge) { return (u64)columns[edge]; };
    auto factor_of = [=](u64, u64 column) { return column_scale != nullptr ? column_scale[column] : 1.0f; };
    for (u64 position = group.row; position < n_positions; position += group.step) {
        const u64 begin = indptr[position], end = indptr[position + 1];
        float* sums = out + (rows != nullptr ? rows[position] : position) * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const float4 sum = load4(sums + column, n_cols - column, wide);
            store4(sums + column,
                   add_entries<true>(sum, begin, end, row_of, factor_of, x, column, n_cols, wide),
                   n_cols - column, wide);
        }
    }
}

KERNEL aggregate_transposed(const u64* __restrict__ indptr, const u32* __restrict__ readers,
                            const float* __restrict__ column_scale, const float* __restrict__ dy,
                            float* __restrict__ out, u32 n_columns, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(dy, n_cols) && is_wide(out, n_cols);
    auto row_of = [=](u64 edge) { return (u64)readers[edge]; };
    auto factor_of = [](u64, u64) { return 1.0f; };
    for (u64 row = group.row; row < n_columns; row += group.step) {
        const float factor = column_scale != nullptr ? column_scale[row] : 1.0f;
        if (factor == 0.0f) continue;
        const u64 begin = indptr[row], end = indptr[row + 1];
        float* sums = out + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const float4 zero = make_float4(0, 0, 0, 0);
            const float4 sum =
                add_entries<false>(zero, begin, end, row_of, factor_of, dy, column, n_cols, wide);
            store4(sums + column, add_scaled4(load4(sums + column, n_cols - column, wide), factor, sum),
                   n_cols - column, wide);
        }
    }
}
