//! ReLU and its backward pass, in place, and ReLU after gain and offset, a copy.
//!
//! Specification: `Backend::relu`, `relu_backward` and `affine_relu` of sylvie-tensor, bit for bit: a NaN stays one.
//! Shapes: x, y, dy: n_values; affine_relu: x, y: n_rows x n_cols; gain, offset: n_cols.
//! Bytes: 8 a value (backward 12).
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL relu(float* __restrict__ x, u64 n_values) {
    const bool aligned = is_aligned(x, 16);
    for (u64 at = 4 * thread_index(); at < n_values; at += 4 * n_threads()) {
        const u64 n = n_values - at;
        const bool wide = aligned && n >= 4;
        // Written so that a NaN stays one; a maximum would hide it.
        store4(x + at, map4(load4(x + at, n, wide), [](float v) { return v <= 0.0f ? 0.0f : v; }), n, wide);
    }
}

KERNEL affine_relu(const float* __restrict__ gain, const float* __restrict__ offset, const float* __restrict__ x,
                   float* __restrict__ y, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(y, n_cols) && is_wide(gain, n_cols) && is_wide(offset, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            const float4 scaled = map4(load4(x + row * n_cols + column, n, wide), load4(gain + column, n, wide),
                                       [](float v, float g) { return v * g; });
            const float4 shifted = add4(scaled, load4(offset + column, n, wide));
            store4(y + row * n_cols + column, map4(shifted, [](float v) { return v <= 0.0f ? 0.0f : v; }), n, wide);
        }
    }
}

KERNEL relu_backward(const float* __restrict__ y, float* __restrict__ dy, u64 n_values) {
    const bool aligned = is_aligned(y, 16) && is_aligned(dy, 16);
    for (u64 at = 4 * thread_index(); at < n_values; at += 4 * n_threads()) {
        const u64 n = n_values - at;
        const bool wide = aligned && n >= 4;
        const float4 gradient = map4(load4(y + at, n, wide), load4(dy + at, n, wide),
                                     [](float v, float d) { return v > 0.0f ? d : 0.0f; });
        store4(dy + at, gradient, n, wide);
    }
}
