//! Gradients of attention, edge by edge.
//!
//! Specification: `Backend::attention_self_backward` and `attention_block_backward` of sylvie-tensor;
//!   products over columns are summed in another order.
//! Shapes: values, dvalues: columns x (n_heads * width); source, dsource: columns x n_heads; target,
//!   dtarget, log_sum, dot: rows x n_heads; dy: rows x (n_heads * width); dscores: edges, in column order,
//!   x n_heads; indptr: n_columns (n_positions) + 1; readers: rows; edges: places in dscores. All gradients
//!   but dscores are added to.
//! Work: up to 32 neighbouring lanes take a head of a column, a lane four of its columns; heads of at most
//!   128 columns stay in registers. By rows a thread takes a head of a row.
//! Bytes: 4 width + 16 an edge and head, once more read by rows (12); 12 width a column and head.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

DEVICE float leaky(float score) { return score > 0.0f ? score : 0.2f * score; }
DEVICE float leaky_slope(float score) { return score > 0.0f ? 1.0f : 0.2f; }
DEVICE bool takes_part(float source) { return source != -INFINITE; }

/// One edge and head: its weight, and the gradient of its score before LeakyReLU.
struct Gradient {
    float weight, dscore;
};
DEVICE Gradient edge_gradient(float score, float log_sum, float dweight, float dot) {
    const float weight = expf(leaky(score) - log_sum);
    return Gradient{weight, weight * (dweight - dot) * leaky_slope(score)};
}

/// `x . y` over `width` columns, in every lane.
DEVICE float group_dot(Group group, const float* x, const float* y, u32 width, bool wide) {
    float sum = 0.0f;
    for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes)
        sum += dot4(load4(x + column, width - column, wide), load4(y + column, width - column, wide));
    return group_sum(group, sum);
}

/// `sums += factor * x`.
DEVICE void group_add_scaled(Group group, float factor, const float* x, float* sums, u32 width, bool wide) {
    for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
        const u32 n = width - column;
        store4(sums + column,
               add_scaled4(load4(sums + column, n, wide), factor, load4(x + column, n, wide)), n, wide);
    }
}

KERNEL attention_self_backward(const float* __restrict__ values, const float* __restrict__ source,
                               const float* __restrict__ target, const float* __restrict__ log_sum,
                               const float* __restrict__ dot, const float* __restrict__ dy,
                               float* __restrict__ dvalues, float* __restrict__ dsource,
                               float* __restrict__ dtarget, u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(values, width) && is_wide(dy, width) && is_wide(dvalues, width);
    const u64 n_items = (u64)n_rows * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        if (!takes_part(source[item])) continue;
        const u64 at = item * width;
        const float dweight = group_dot(group, dy + at, values + at, width, wide);
        const Gradient gradient =
            edge_gradient(source[item] + target[item], log_sum[item], dweight, dot[item]);
        group_add_scaled(group, gradient.weight, dy + at, dvalues + at, width, wide);
        if (group.lane == 0) {
            dsource[item] += gradient.dscore;
            dtarget[item] += gradient.dscore;
        }
    }
}

KERNEL attention_columns_backward(const u64* __restrict__ indptr, const u32* __restrict__ readers,
                                  const float* __restrict__ values, const float* __restrict__ source,
                                  const float* __restrict__ target, const float* __restrict__ log_sum,
                                  const float* __restrict__ dot, const float* __restrict__ dy,
                                  float* __restrict__ dvalues, float* __restrict__ dsource,
                                  float* __restrict__ dscores, u32 n_columns, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(values, width) && is_wide(dy, width) && is_wide(dvalues, width);
    const bool is_kept = width <= 4 * group.lanes;
    const u32 column = 4 * group.lane, n = column < width ? width - column : 0;
    const u64 n_items = (u64)n_columns * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const u64 begin = indptr[item / n_heads], end = indptr[item / n_heads + 1], head = item % n_heads;
        const float own_source = source[item];
        const bool takes = takes_part(own_source);
        const float* x = values + item * width;
        float4 value = make_float4(0, 0, 0, 0), sum = value;
        if (takes && is_kept && n > 0) {
            value = load4(x + column, n, wide);
            sum = load4(dvalues + item * width + column, n, wide);
        }
        float dscore_sum = takes && group.lane == 0 ? dsource[item] : 0.0f;
        for (u64 edge = begin; edge < end; ++edge) {
            float dscore = 0.0f;
            if (takes) {
                const u64 place = (u64)readers[edge] * n_heads + head;
                const float* gradients = dy + place * width;
                float4 gradient = make_float4(0, 0, 0, 0);
                if (is_kept && n > 0) gradient = load4(gradients + column, n, wide);
                const float dweight = is_kept ? group_sum(group, dot4(gradient, value))
                                              : group_dot(group, gradients, x, width, wide);
                const Gradient edge_ =
                    edge_gradient(own_source + target[place], log_sum[place], dweight, dot[place]);
                if (is_kept) {
                    sum = add_scaled4(sum, edge_.weight, gradient);
                } else {
                    group_add_scaled(group, edge_.weight, gradients, dvalues + item * width, width, wide);
                }
                dscore = edge_.dscore;
                dscore_sum += dscore;
            }
            if (group.lane == 0) dscores[edge * n_heads + head] = dscore;
        }
        if (!takes) continue;
        if (is_kept && n > 0) store4(dvalues + item * width + column, sum, n, wide);
        if (group.lane == 0) dsource[item] = dscore_sum;
    }
}

KERNEL attention_rows_backward(const u64* __restrict__ indptr, const u64* __restrict__ edges,
                               const u32* __restrict__ rows, const float* __restrict__ dscores,
                               float* __restrict__ dtarget, u32 n_positions, u32 n_heads) {
    const u64 n_items = (u64)n_positions * n_heads;
    for (u64 item = thread_index(); item < n_items; item += n_threads()) {
        const u64 position = item / n_heads, head = item % n_heads;
        float* at = dtarget + (rows != nullptr ? rows[position] : position) * n_heads + head;
        float sum = *at;
        for (u64 edge = indptr[position]; edge < indptr[position + 1]; ++edge)
            sum += dscores[edges[edge] * n_heads + head];
        *at = sum;
    }
}
