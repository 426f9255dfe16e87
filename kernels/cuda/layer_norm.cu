//! LayerNorm, and the part of its backward pass that goes by rows.
//!
//! Specification: `Backend::layer_norm` and `layer_norm_backward` of sylvie-tensor; sums over a row in
//!   another order. The gradients of gain and offset are sums over columns: column_sums.cu.
//! Shapes: x, normalised, dy: n_rows x n_cols; gain, offset: n_cols; inverse: n_rows.
//! Work: up to 32 neighbouring lanes take a row, a lane four columns. Rows of at most 128 columns are read
//!   once.
//! Bytes: 12 n_cols a row forward, 12 backward.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

const float EPSILON = 1e-5f;

KERNEL layer_norm(const float* __restrict__ gain, const float* __restrict__ offset, float* __restrict__ x,
                  float* __restrict__ normalised, float* __restrict__ inverse, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols) && is_wide(normalised, n_cols) && is_wide(gain, n_cols) &&
                      is_wide(offset, n_cols);
    const bool is_kept = n_cols <= 4 * group.lanes;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        float* values = x + row * n_cols;
        float4 value = make_float4(0, 0, 0, 0);
        float sum = 0.0f;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            value = load4(values + column, n_cols - column, wide);
            sum += sum4(value);
        }
        const float mean = group_sum(group, sum) / (float)n_cols;
        float squares = 0.0f;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            // Behind the row stands the mean, so that its squares are zeros.
            if (!is_kept || !wide) value = load4(values + column, n_cols - column, wide, mean);
            const float4 centred = map4(value, [=](float v) { return v - mean; });
            squares += dot4(centred, centred);
        }
        const float scale = 1.0f / sqrtf(group_sum(group, squares) / (float)n_cols + EPSILON);
        if (group.lane == 0) inverse[row] = scale;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 n = n_cols - column;
            if (!is_kept) value = load4(values + column, n, wide);
            const float4 unit = map4(value, [=](float v) { return (v - mean) * scale; });
            store4(normalised + row * n_cols + column, unit, n, wide);
            const float4 scaled =
                map4(unit, load4(gain + column, n, wide), [](float u, float g) { return u * g; });
            store4(values + column, add4(scaled, load4(offset + column, n, wide)), n, wide);
        }
    }
}

KERNEL layer_norm_backward(const float* __restrict__ gain, const float* __restrict__ normalised,
                           const float* __restrict__ inverse, float* __restrict__ dy, u32 n_rows,
                           u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(dy, n_cols) && is_wide(normalised, n_cols) && is_wide(gain, n_cols);
    const bool is_kept = n_cols <= 4 * group.lanes;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        float* gradients = dy + row * n_cols;
        const float* units = normalised + row * n_cols;
        float4 gradient = make_float4(0, 0, 0, 0), unit = gradient;
        auto load = [&](u32 column) {
            const u32 n = n_cols - column;
            gradient = map4(load4(gradients + column, n, wide), load4(gain + column, n, wide),
                            [](float d, float g) { return d * g; });
            unit = load4(units + column, n, wide);
        };
        float sum = 0.0f, product = 0.0f;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            load(column);
            sum += sum4(gradient);
            product += dot4(gradient, unit);
        }
        const float mean = group_sum(group, sum) / (float)n_cols;
        const float projection = group_sum(group, product) / (float)n_cols;
        const float scale = inverse[row];
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            if (!is_kept) load(column);
            const float4 result =
                map4(gradient, unit, [=](float d, float u) { return (d - mean - u * projection) * scale; });
            store4(gradients + column, result, n_cols - column, wide);
        }
    }
}
