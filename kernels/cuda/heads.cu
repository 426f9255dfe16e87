//! Products and means of heads.
//!
//! Specification: `Backend::head_dots`, `head_mean` and `head_mean_backward` of sylvie-tensor; head_dots
//!   sums in another order.
//! Shapes: head_dots: x, y: n_rows x (n_heads * width), out: n_rows x n_heads. head_mean: x: n_rows x
//!   (n_heads * width), out: n_rows x width. head_mean_backward: dy: n_rows x width, out: n_rows x (n_heads
//!   * width).
//! Bytes: every value read or written once.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL head_dots(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                 u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(x, width) && is_wide(y, width);
    const u64 n_items = (u64)n_rows * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const u64 first = item * width;
        float sum = 0.0f;
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
            const u32 n = width - column;
            sum += dot4(load4(x + first + column, n, wide), load4(y + first + column, n, wide));
        }
        sum = group_sum(group, sum);
        if (group.lane == 0) out[item] = sum;
    }
}

KERNEL head_mean(const float* __restrict__ x, float* __restrict__ out, u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(x, width) && is_wide(out, width);
    const float share = 1.0f / (float)n_heads;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float* heads = x + row * n_heads * width;
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
            const u32 n = width - column;
            float4 mean = make_float4(0, 0, 0, 0);
            for (u32 head = 0; head < n_heads; ++head)
                mean = add_scaled4(mean, share, load4(heads + (u64)head * width + column, n, wide));
            store4(out + row * width + column, mean, n, wide);
        }
    }
}

KERNEL head_mean_backward(const float* __restrict__ dy, float* __restrict__ out, u32 n_rows, u32 n_heads,
                          u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(dy, width) && is_wide(out, width);
    const float share = 1.0f / (float)n_heads;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        float* heads = out + row * n_heads * width;
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
            const u32 n = width - column;
            const float4 gradient =
                map4(load4(dy + row * width + column, n, wide), [=](float d) { return share * d; });
            for (u32 head = 0; head < n_heads; ++head)
                store4(heads + (u64)head * width + column, gradient, n, wide);
        }
    }
}
