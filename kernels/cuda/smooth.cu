//! An exponential moving average.
//!
//! Specification: `Backend::smooth` of sylvie-tensor, bit for bit: nothing is fused.
//! Shapes: x, average: n_values.
//! Bytes: 12 a value.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL smooth(const float* __restrict__ x, float* __restrict__ average, u64 n_values, float decay) {
    const float rest = 1.0f - decay;
    const bool aligned = is_aligned(x, 16) && is_aligned(average, 16);
    for (u64 at = 4 * thread_index(); at < n_values; at += 4 * n_threads()) {
        const u64 n = n_values - at;
        const bool wide = aligned && n >= 4;
        const float4 value = map4(load4(average + at, n, wide), load4(x + at, n, wide),
                                  [=](float a, float v) { return decay * a + rest * v; });
        store4(average + at, value, n, wide);
    }
}
