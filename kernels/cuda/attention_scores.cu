//! Attention scores of rows and their backward pass.
//!
//! Specification: `Backend::attention_scores` and `attention_scores_backward` of sylvie-tensor; sums in
//!   another order.
//! Shapes: x, dx: n_rows x (n_heads * width); weights: n_heads x width; out, dscores: n_rows x n_heads.
//!   attention_weight_sums: out: ceil(n_rows / 512) x (n_heads * width).
//! Work: up to 32 neighbouring lanes take a head of a row, a lane four columns.
//! Bytes: 4 n_heads (width + 1) a row; backward 8 n_heads width and 4 n_heads width.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL attention_scores(const float* __restrict__ x, const float* __restrict__ weights,
                        float* __restrict__ out, u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(x, width) && is_wide(weights, width);
    const u64 n_items = (u64)n_rows * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const float *values = x + item * width, *factors = weights + item % n_heads * width;
        float sum = 0.0f;
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes)
            sum += dot4(load4(values + column, width - column, wide),
                        load4(factors + column, width - column, wide));
        sum = group_sum(group, sum);
        if (group.lane == 0) out[item] = sum;
    }
}

KERNEL attention_scores_backward(const float* __restrict__ weights, const float* __restrict__ dscores,
                                 float* __restrict__ dx, u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(dx, width) && is_wide(weights, width);
    const u64 n_items = (u64)n_rows * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const float* factors = weights + item % n_heads * width;
        const float dscore = dscores[item];
        float* gradients = dx + item * width;
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
            const u32 n = width - column;
            const float4 sum =
                add_scaled4(load4(gradients + column, n, wide), dscore, load4(factors + column, n, wide));
            store4(gradients + column, sum, n, wide);
        }
    }
}

KERNEL attention_weight_sums(const float* __restrict__ x, const float* __restrict__ dscores,
                             float* __restrict__ out, u32 n_rows, u32 n_heads, u32 width, u32 add) {
    const u32 n_cols = n_heads * width;
    const bool wide = is_wide(x, n_cols);
    auto value = [=](u64 row, u32 column, u32 n) {
        const float* factors = dscores + row * n_heads + column / width;
        // Columns of this head that are left, from `column` on; heads may be narrower than four.
        u32 left = width - column % width;
        auto next = [&]() {
            if (--left != 0) return;
            left = width;
            ++factors;
        };
        float4 product = load4(x + row * n_cols + column, n, wide);
        product.x *= *factors;
        next();
        if (n > 1) product.y *= *factors;
        next();
        if (n > 2) product.z *= *factors;
        next();
        if (n > 3) product.w *= *factors;
        return product;
    };
    sum_tiles(value, out, n_rows, n_cols, add != 0);
}
