//! Binary cross-entropy with logits of chosen rows, mean over classes, and its gradient.
//!
//! Specification: `Backend::binary_cross_entropy` of sylvie-tensor; sums over classes in another order.
//! Shapes: logits, dlogits: any x n_classes; rows (distinct), losses: n_listed; targets: n_listed x
//!   n_classes. Only listed rows of dlogits are written.
//! Work: up to 32 neighbouring lanes take a row, a lane four classes at a time.
//! Bytes: 12 n_classes + 12 a listed row.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

DEVICE double loss_of(float logit, float target) {
    const double x = logit;
    return fmax(x, 0.0) - x * (double)target + log1p(exp(-fabs(x)));
}

KERNEL binary_cross_entropy(const float* __restrict__ logits, const u32* __restrict__ rows,
                            const float* __restrict__ targets, float* __restrict__ dlogits,
                            double* __restrict__ losses, u32 n_listed, u32 n_classes) {
    const Group group = group_of_values(n_classes);
    const bool wide =
        is_wide(logits, n_classes) && is_wide(targets, n_classes) && is_wide(dlogits, n_classes);
    const double share = 1.0 / (double)n_classes;
    const float gradient_share = (float)share;
    for (u64 item = group.row; item < n_listed; item += group.step) {
        const float* scores = logits + (u64)rows[item] * n_classes;
        float* gradients = dlogits + (u64)rows[item] * n_classes;
        double sum = 0.0;
        for (u32 column = 4 * group.lane; column < n_classes; column += 4 * group.lanes) {
            const u32 n = n_classes - column;
            const float4 score = load4(scores + column, n, wide),
                         target = load4(targets + item * n_classes + column, n, wide);
            auto gradient = [=](float x, float t) {
                return (1.0f / (1.0f + expf(-x)) - t) * gradient_share;
            };
            store4(gradients + column, map4(score, target, gradient), n, wide);
            sum += loss_of(score.x, target.x);
            if (n > 1) sum += loss_of(score.y, target.y);
            if (n > 2) sum += loss_of(score.z, target.z);
            if (n > 3) sum += loss_of(score.w, target.w);
        }
        sum = group_sum(group, sum);
        if (group.lane == 0) losses[item] = sum * share;
    }
}
