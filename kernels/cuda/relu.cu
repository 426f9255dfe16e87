//! ReLU and its backward pass, in place.
//!
//! Specification: `Backend::relu` and `relu_backward` of sylvie-tensor, bit for bit: a NaN stays one.
//! Shapes: x, y, dy: n_values.
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
