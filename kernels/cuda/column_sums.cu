//! Sums of columns, over 512 rows a pass.
//!
//! Specification: `Backend::column_sums` of sylvie-tensor; column_products sums x * y, value by value.
//! Shapes: x, y: n_rows x n_cols; out: ceil(n_rows / 512) x n_cols, assigned or (add = 1) added to.
//! Work: a block takes 512 rows of 128 columns: a warp every eighth row, a lane four columns; the warps'
//!   sums meet in shared memory and are added in their order. Sums depend on the shape alone.
//! Bytes: 4 a value read.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL column_sums(const float* __restrict__ x, float* __restrict__ out, u32 n_rows, u32 n_cols, u32 add) {
    const bool wide = is_wide(x, n_cols);
    auto value = [=](u64 row, u32 column, u32 n) { return load4(x + row * n_cols + column, n, wide); };
    sum_tiles(value, out, n_rows, n_cols, add != 0);
}

KERNEL column_products(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                       u32 n_rows, u32 n_cols, u32 add) {
    const bool wide = is_wide(x, n_cols) && is_wide(y, n_cols);
    auto value = [=](u64 row, u32 column, u32 n) {
        const u64 at = row * n_cols + column;
        return map4(load4(x + at, n, wide), load4(y + at, n, wide), [](float a, float b) { return a * b; });
    };
    sum_tiles(value, out, n_rows, n_cols, add != 0);
}
