//! Dropout of a matrix in place, and of a sparse matrix's values.
//!
//! Specification: `Backend::dropout` and `sparse_dropout` of sylvie-tensor, bit for bit: sixteen random
//!   bits a value, eight values a block of Philox4x32-10.
//! Shapes: x: n_rows x n_cols; keys: n_rows; indptr: n_rows + 1; columns, values, out: one entry a stored
//!   value.
//! Work: of a matrix a lane takes four columns, half a block; of a sparse one 32 lanes take a row, a lane a
//!   value.
//! Bytes: 8 a value (sparse: 12 a stored value).
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

DEVICE float factor_of(u32 bits, u32 threshold, float scale) { return bits < threshold ? 0.0f : scale; }

KERNEL dropout(const u32* __restrict__ keys, float* __restrict__ x, u32 n_rows, u32 n_cols, u32 key0,
               u32 key1, u32 epoch, u32 tag, u32 threshold, float scale) {
    const Draws draws = {key0, key1, epoch, tag};
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        float* values = x + row * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const uint4 random = random_block<10>(draws, keys[row], column / 8);
            const u32 first = column % 8 == 0 ? random.x : random.z,
                      second = column % 8 == 0 ? random.y : random.w;
            float4 value = load4(values + column, n_cols - column, wide);
            value.x *= factor_of(first & 0xffff, threshold, scale);
            value.y *= factor_of(first >> 16, threshold, scale);
            value.z *= factor_of(second & 0xffff, threshold, scale);
            value.w *= factor_of(second >> 16, threshold, scale);
            store4(values + column, value, n_cols - column, wide);
        }
    }
}

KERNEL sparse_dropout(const u64* __restrict__ indptr, const u32* __restrict__ columns,
                      const u32* __restrict__ keys, const float* __restrict__ values,
                      float* __restrict__ out, u32 n_rows, u32 key0, u32 key1, u32 epoch, u32 tag,
                      u32 threshold, float scale) {
    const Draws draws = {key0, key1, epoch, tag};
    const Group group = group_of(32);
    for (u64 row = group.row; row < n_rows; row += group.step) {
        for (u64 place = indptr[row] + group.lane; place < indptr[row + 1]; place += group.lanes) {
            const u32 column = columns[place];
            const u32 word = word_of(random_block<10>(draws, keys[row], column / 8), column % 8 / 2);
            out[place] =
                values[place] * factor_of(column % 2 == 0 ? word & 0xffff : word >> 16, threshold, scale);
        }
    }
}
