//! Attention with a running softmax: begin, add a block's edges, finish.
//!
//! Specification: `Backend::attention_begin`, `attention_add_block` and `attention_finish` of
//!   sylvie-tensor.
//! Shapes: values: columns (begin: rows) x (n_heads * width); source: columns x n_heads; target, max, sum:
//!   rows x n_heads; sums: rows x (n_heads * width); indptr: n_positions + 1; columns: one entry an edge;
//!   rows (or null): n_positions.
//! Work: up to 32 neighbouring lanes take a head of a row. For a block, a lane first takes an edge, for the
//!   maximum and for the edge's weight, which then goes round; for the sums a lane takes four columns.
//!   Edges are added in their order.
//! Bytes: add_block: 4 width + 12 an edge and head; 8 width + 16 a row and head.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

DEVICE float leaky(float score) { return score > 0.0f ? score : 0.2f * score; }
/// Whether a column with this source score is among those that the softmax is over.
DEVICE bool takes_part(float source) { return source != -INFINITE; }

KERNEL attention_begin(const float* __restrict__ values, const float* __restrict__ source,
                       const float* __restrict__ target, float* __restrict__ max, float* __restrict__ sum,
                       float* __restrict__ sums, u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(values, width) && is_wide(sums, width);
    const u64 n_items = (u64)n_rows * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const bool takes = takes_part(source[item]);
        if (group.lane == 0) {
            max[item] = takes ? leaky(source[item] + target[item]) : -INFINITE;
            sum[item] = takes ? 1.0f : 0.0f;
        }
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
            const u32 n = width - column;
            const float4 value =
                takes ? load4(values + item * width + column, n, wide) : make_float4(0, 0, 0, 0);
            store4(sums + item * width + column, value, n, wide);
        }
    }
}

/// One head of the block's edges: what a lane needs to know of an edge that it does not take itself.
struct Edges {
    const u32* columns;
    const float* values;
    const float* source;
    u32 n_heads, head, width;
    float target;

    DEVICE_MEMBER float source_of(u32 column) const { return source[(u64)column * n_heads + head]; }
    DEVICE_MEMBER const float* values_of(u32 column) const {
        return values + ((u64)column * n_heads + head) * width;
    }
};

/// The edges' largest score, at least `largest`.
DEVICE float largest_score(Group group, const Edges& edges, u64 begin, u64 end, float largest) {
    for (u64 edge = begin + group.lane; edge < end; edge += group.lanes)
        largest = fmaxf(largest, leaky(edges.source_of(edges.columns[edge]) + edges.target));
    return group_max(group, largest);
}

/// Adds weighted values of the edges to four columns, those from `column` on, and their weights to `total`.
DEVICE float4 add_weighted(Group group, const Edges& edges, u64 begin, u64 end, float largest, float4 sum,
                           u32 column, bool wide, float& total) {
    const bool has_columns = column < edges.width;
    for (u64 first = begin; first < end; first += group.lanes) {
        // Less than 0: takes no part.
        float own_weight = -1.0f;
        u32 own_column = 0;
        if (first + group.lane < end) {
            own_column = edges.columns[first + group.lane];
            const float source = edges.source_of(own_column);
            if (takes_part(source)) own_weight = expf(leaky(source + edges.target) - largest);
        }
        const u32 n_edges = (u32)min((u64)group.lanes, end - first);
        for (u32 edge = 0; edge < n_edges; ++edge) {
            const float weight = __shfl_sync(group.mask, own_weight, edge, group.lanes);
            const u32 neighbour = __shfl_sync(group.mask, own_column, edge, group.lanes);
            if (weight < 0.0f) continue;
            total += weight;
            if (has_columns)
                sum = add_scaled4(sum, weight,
                                  load4(edges.values_of(neighbour) + column, edges.width - column, wide));
        }
    }
    return sum;
}

KERNEL attention_add_block(const u64* __restrict__ indptr, const u32* __restrict__ columns,
                           const u32* __restrict__ rows, const float* __restrict__ values,
                           const float* __restrict__ source, const float* __restrict__ target,
                           float* __restrict__ max, float* __restrict__ sum, float* __restrict__ sums,
                           u32 n_positions, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(values, width) && is_wide(sums, width);
    const u64 n_items = (u64)n_positions * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const u64 position = item / n_heads, head = item % n_heads;
        const u64 begin = indptr[position], end = indptr[position + 1];
        const u64 place = (rows != nullptr ? rows[position] : position) * n_heads + head;
        const Edges edges = {columns, values, source, n_heads, (u32)head, width, target[place]};
        const float before = max[place], sum_before = sum[place];
        const float largest = largest_score(group, edges, begin, end, before);
        const float factor = largest > before ? expf(before - largest) : 1.0f;
        float total = sum_before * factor;
        // Lanes behind the last column come along, for they have edges to take.
        for (u32 first = 0; first < width; first += 4 * group.lanes) {
            const u32 column = first + 4 * group.lane;
            float* at = sums + place * width + column;
            float4 value = make_float4(0, 0, 0, 0);
            if (column < width)
                value = map4(load4(at, width - column, wide), [=](float v) { return v * factor; });
            float tile_total = total;
            value = add_weighted(group, edges, begin, end, largest, value, column, wide, tile_total);
            if (column < width) store4(at, value, width - column, wide);
            if (first + 4 * group.lanes >= width) total = tile_total;
        }
        __syncwarp(group.mask);
        if (group.lane == 0) {
            max[place] = largest;
            sum[place] = total;
        }
    }
}

KERNEL attention_finish(float* __restrict__ max, const float* __restrict__ sum, float* __restrict__ values,
                        u32 n_rows, u32 n_heads, u32 width) {
    const Group group = group_of_values(width);
    const bool wide = is_wide(values, width);
    const u64 n_items = (u64)n_rows * n_heads;
    for (u64 item = group.row; item < n_items; item += group.step) {
        const float total = sum[item];
        if (group.lane == 0) max[item] += logf(total);
        // Without anybody who takes part the sum is 0, and the mean stays so.
        if (total == 0.0f) continue;
        for (u32 column = 4 * group.lane; column < width; column += 4 * group.lanes) {
            float* at = values + item * width + column;
            store4(at, map4(load4(at, width - column, wide), [=](float v) { return v / total; }),
                   width - column, wide);
        }
    }
}
