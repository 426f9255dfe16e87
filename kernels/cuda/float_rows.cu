//! Rows as f16, bf16 or f32 numbers of a message, and back, assigned or added.
//!
//! Specification: `sylvie_lowbit::Plain` at these widths, byte for byte.
//! Shapes: x, out: any x n_cols; rows (or null): n_rows; message: n_rows x n_cols little-endian numbers, at
//!   any address.
//! Work: a lane takes four columns; up to 32 neighbouring lanes take a row.
//! Bytes: 4 a value of x or out and 2 or 4 a value of the message.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

/// How a value of each width becomes bits, and what the bits stand for.
struct Half {
    enum { BYTES = 2 };
    static DEVICE_MEMBER u32 pattern(float x) { return f16_nearest(x); }
    static DEVICE_MEMBER float value(u32 pattern) { return f16_value(pattern); }
};
struct Brain {
    enum { BYTES = 2 };
    static DEVICE_MEMBER u32 pattern(float x) { return bf16_nearest(x); }
    static DEVICE_MEMBER float value(u32 pattern) { return bf16_value(pattern); }
};
struct Full {
    enum { BYTES = 4 };
    static DEVICE_MEMBER u32 pattern(float x) { return __float_as_uint(x); }
    static DEVICE_MEMBER float value(u32 pattern) { return __uint_as_float(pattern); }
};

DEVICE float part_of(float4 value, u32 i) {
    return i < 2 ? (i == 0 ? value.x : value.y) : (i == 2 ? value.z : value.w);
}

template <class W>
DEVICE void encode(const float* x, const u32* rows, u8* message, u64* status, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(x, n_cols);
    const bool wide_message = is_aligned(message, 4 * W::BYTES) && n_cols % 4 == 0;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float* values = x + (rows != nullptr ? rows[row] : row) * n_cols;
        u8* payload = message + row * n_cols * W::BYTES;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const float4 value = load4(values + column, n_cols - column, wide);
            u32 patterns[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const float v = part_of(value, i);
                patterns[i] = W::pattern(v);
                if (column + i < n_cols && !is_finite(W::value(patterns[i])))
                    refuse(status, row, is_finite(v) ? VALUE_OVERFLOW : NOT_FINITE, column + i);
            }
            u8* at = payload + (u64)column * W::BYTES;
            if (!wide_message) {
#pragma unroll
                for (u32 i = 0; i < 4 * W::BYTES; ++i)
                    if (column + i / W::BYTES < n_cols)
                        at[i] = (u8)(patterns[i / W::BYTES] >> (i % W::BYTES * 8));
            } else if (W::BYTES == 2) {
                *reinterpret_cast<uint2*>(at) =
                    make_uint2(patterns[0] | patterns[1] << 16, patterns[2] | patterns[3] << 16);
            } else {
                *reinterpret_cast<uint4*>(at) =
                    make_uint4(patterns[0], patterns[1], patterns[2], patterns[3]);
            }
        }
    }
}

template <class W, bool ADDS>
DEVICE void decode(const u8* message, const u32* rows, float* out, u64* status, u32 n_rows, u32 n_cols) {
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(out, n_cols);
    const bool wide_message = is_aligned(message, 4 * W::BYTES) && n_cols % 4 == 0;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const u8* payload = message + row * n_cols * W::BYTES;
        float* values = out + (rows != nullptr ? rows[row] : row) * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u8* at = payload + (u64)column * W::BYTES;
            u32 patterns[4] = {0, 0, 0, 0};
            if (!wide_message) {
#pragma unroll
                for (u32 i = 0; i < 4 * W::BYTES; ++i)
                    if (column + i / W::BYTES < n_cols)
                        patterns[i / W::BYTES] |= (u32)at[i] << (i % W::BYTES * 8);
            } else if (W::BYTES == 2) {
                const uint2 words = *reinterpret_cast<const uint2*>(at);
                patterns[0] = words.x & 0xffff;
                patterns[1] = words.x >> 16;
                patterns[2] = words.y & 0xffff;
                patterns[3] = words.y >> 16;
            } else {
                const uint4 words = *reinterpret_cast<const uint4*>(at);
                patterns[0] = words.x;
                patterns[1] = words.y;
                patterns[2] = words.z;
                patterns[3] = words.w;
            }
            bool all_finite = true;
            float4 value = make_float4(W::value(patterns[0]), W::value(patterns[1]), W::value(patterns[2]),
                                       W::value(patterns[3]));
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                if (is_finite(part_of(value, i))) continue;
                all_finite = false;
                refuse(status, row, NOT_FINITE, column + i);
            }
            if (!all_finite) continue;
            if (ADDS) value = add4(load4(values + column, n_cols - column, wide), value);
            store4(values + column, value, n_cols - column, wide);
        }
    }
}

#define FLOAT_ROWS(width, type)                                                                            \
    KERNEL encode_##width(const float* __restrict__ x, const u32* __restrict__ rows,                       \
                          u8* __restrict__ message, u64* __restrict__ status, u32 n_rows, u32 n_cols) {    \
        encode<type>(x, rows, message, status, n_rows, n_cols);                                            \
    }                                                                                                      \
    KERNEL decode_##width(const u8* __restrict__ message, const u32* __restrict__ rows,                    \
                          float* __restrict__ out, u64* __restrict__ status, u32 n_rows, u32 n_cols) {     \
        decode<type, false>(message, rows, out, status, n_rows, n_cols);                                   \
    }                                                                                                      \
    KERNEL decode_add_##width(const u8* __restrict__ message, const u32* __restrict__ rows,                \
                              float* __restrict__ out, u64* __restrict__ status, u32 n_rows, u32 n_cols) { \
        decode<type, true>(message, rows, out, status, n_rows, n_cols);                                    \
    }
FLOAT_ROWS(f16, Half)
FLOAT_ROWS(bf16, Brain)
FLOAT_ROWS(f32, Full)
