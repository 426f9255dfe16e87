//! Cross-entropy of chosen rows with their classes, and its gradient.
//!
//! Specification: `Backend::softmax_cross_entropy` of sylvie-tensor; sums over classes in another order.
//! Shapes: logits, dlogits: any x n_classes; rows (distinct), classes, losses: n_listed. Only listed rows
//!   of dlogits are written.
//! Work: up to 32 neighbouring lanes take a row, a lane four classes at a time.
//! Bytes: 8 n_classes + 16 a listed row, some of it twice from cache.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

KERNEL softmax_cross_entropy(const float* __restrict__ logits, const u32* __restrict__ rows,
                             const u32* __restrict__ classes, float* __restrict__ dlogits,
                             double* __restrict__ losses, u32 n_listed, u32 n_classes) {
    const Group group = group_of_values(n_classes);
    const bool wide = is_wide(logits, n_classes) && is_wide(dlogits, n_classes);
    for (u64 item = group.row; item < n_listed; item += group.step) {
        const float* scores = logits + (u64)rows[item] * n_classes;
        float* gradients = dlogits + (u64)rows[item] * n_classes;
        const u32 own_class = classes[item];
        float largest = -INFINITE;
        for (u32 column = 4 * group.lane; column < n_classes; column += 4 * group.lanes) {
            const float4 score = load4(scores + column, n_classes - column, wide, -INFINITE);
            largest = fmaxf(largest, fmaxf(fmaxf(score.x, score.y), fmaxf(score.z, score.w)));
        }
        largest = group_max(group, largest);
        double sum = 0.0;
        for (u32 column = 4 * group.lane; column < n_classes; column += 4 * group.lanes) {
            const u32 n = n_classes - column;
            const float4 weight = map4(load4(scores + column, n, wide, -INFINITE),
                                       [=](float v) { return expf(v - largest); });
            store4(gradients + column, weight, n, wide);
            // Behind the last class stand zeros.
            sum += ((double)weight.x + (double)weight.y) + ((double)weight.z + (double)weight.w);
        }
        sum = group_sum(group, sum);
        const float share = (float)(1.0 / sum);
        for (u32 column = 4 * group.lane; column < n_classes; column += 4 * group.lanes) {
            const u32 n = n_classes - column;
            float4 gradient = map4(load4(gradients + column, n, wide), [=](float v) { return v * share; });
            if (own_class == column) gradient.x -= 1.0f;
            if (own_class == column + 1) gradient.y -= 1.0f;
            if (own_class == column + 2) gradient.z -= 1.0f;
            if (own_class == column + 3) gradient.w -= 1.0f;
            store4(gradients + column, gradient, n, wide);
        }
        // Not the maximum and the logarithm first: a large maximum would swallow it.
        if (group.lane == 0) losses[item] = (double)largest - (double)scores[own_class] + log(sum);
    }
}
