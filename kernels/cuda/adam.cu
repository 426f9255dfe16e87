//! One step of Adam.
//!
//! Specification: `Backend::adam` of sylvie-tensor, bit for bit.
//! Shapes: gradient, first, second, weights: n_values. step_size: learning rate by 1 - beta1^step; root2:
//!   root of 1 - beta2^step.
//! Bytes: 28 a value.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

struct Adam {
    float beta1, beta2, step_size, root2, epsilon, weight_decay;

    DEVICE_MEMBER void step(float gradient, float& m, float& v, float& weight) const {
        gradient = gradient + weight_decay * weight;
        m = beta1 * m + (1.0f - beta1) * gradient;
        v = beta2 * v + (1.0f - beta2) * gradient * gradient;
        weight -= step_size * m / (sqrtf(v) / root2 + epsilon);
    }
};

KERNEL adam(const float* __restrict__ gradient, float* __restrict__ first, float* __restrict__ second,
            float* __restrict__ weights, u64 n_values, float beta1, float beta2, float step_size,
            float root2, float epsilon, float weight_decay) {
    const Adam adam = {beta1, beta2, step_size, root2, epsilon, weight_decay};
    const bool aligned = is_aligned(gradient, 16) && is_aligned(first, 16) && is_aligned(second, 16) &&
                         is_aligned(weights, 16);
    for (u64 at = 4 * thread_index(); at < n_values; at += 4 * n_threads()) {
        const u64 n = n_values - at;
        const bool wide = aligned && n >= 4;
        const float4 g = load4(gradient + at, n, wide);
        float4 m = load4(first + at, n, wide), v = load4(second + at, n, wide),
               w = load4(weights + at, n, wide);
        adam.step(g.x, m.x, v.x, w.x);
        adam.step(g.y, m.y, v.y, w.y);
        adam.step(g.z, m.z, v.z, w.z);
        adam.step(g.w, m.w, v.w, w.w);
        store4(first + at, m, n, wide);
        store4(second + at, v, n, wide);
        store4(weights + at, w, n, wide);
    }
}
