//! Codes of 1, 2, 4 or 8 bits to rows, assigned or added.
//!
//! Specification: `sylvie_lowbit::Plain::decode_rows` and `decode_add_rows`, bit for bit.
//! Shapes: message: as quantize.cu writes it, at any address; rows (or null): n_rows; out: any x n_cols.
//! Work: a lane takes four columns; up to 32 neighbouring lanes take a row.
//! Bytes: the message read and 4 n_cols written a row (read too where they are added to).
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

enum Metadata : u32 { F32 = 0, BF16 = 1, F16 = 2 };

DEVICE float load_metadata(u32 type, const u8* at) {
    u32 pattern = at[0] | (u32)at[1] << 8;
    if (type == F32) return __uint_as_float(pattern | (u32)at[2] << 16 | (u32)at[3] << 24);
    return type == BF16 ? bf16_value(pattern) : f16_value(pattern);
}

/// The `4 * BITS` bits of the codes of columns `column ..`, a multiple of four; those behind the row are
/// not read.
template <u32 BITS>
DEVICE u32 load_codes(const u8* payload, u32 column, u32 n_cols) {
    const u8* at = payload + (u64)column * BITS / 8;
    if (BITS == 1) return at[0] >> (column % 8);
    const u32 n_bytes = (min(n_cols - column, 4u) * BITS + 7) / 8;
    if (BITS == 8 && n_bytes == 4 && is_aligned(at, 4)) return *reinterpret_cast<const u32*>(at);
    u32 bits = at[0];
    for (u32 i = 1; i < n_bytes; ++i) bits |= (u32)at[i] << (8 * i);
    return bits;
}

template <u32 BITS, bool ADDS>
DEVICE void decode(const u8* message, const u32* rows, float* out, u64* status, u32 n_rows, u32 n_cols,
                   u32 metadata) {
    const u32 max_code = (1 << BITS) - 1;
    const Group group = group_of_values(n_cols);
    const bool wide = is_wide(out, n_cols);
    const u32 number_bytes = metadata == F32 ? 4 : 2;
    const u64 payload_bytes = ((u64)n_cols * BITS + 7) / 8;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const u8* head = message + row * (2 * number_bytes);
        const float zero = load_metadata(metadata, head),
                    scale = load_metadata(metadata, head + number_bytes);
        if (!(is_finite(zero) && scale >= 0.0f && is_finite(zero + (float)max_code * scale))) {
            if (group.lane == 0) refuse(status, row, METADATA, 0);
            continue;
        }
        const u8* payload = message + (u64)n_rows * (2 * number_bytes) + row * payload_bytes;
        float* values = out + (rows != nullptr ? rows[row] : row) * n_cols;
        for (u32 column = 4 * group.lane; column < n_cols; column += 4 * group.lanes) {
            const u32 codes = load_codes<BITS>(payload, column, n_cols);
            auto level = [=](u32 place) {
                return zero + (float)(codes >> (place * BITS) & max_code) * scale;
            };
            float4 value = make_float4(level(0), level(1), level(2), level(3));
            if (ADDS) value = add4(load4(values + column, n_cols - column, wide), value);
            store4(values + column, value, n_cols - column, wide);
        }
    }
}

#define DECODE(name, bits, adds)                                                                       \
    KERNEL name(const u8* __restrict__ message, const u32* __restrict__ rows, float* __restrict__ out, \
                u64* __restrict__ status, u32 n_rows, u32 n_cols, u32 metadata) {                      \
        decode<bits, adds>(message, rows, out, status, n_rows, n_cols, metadata);                      \
    }
DECODE(decode_1, 1, false)
DECODE(decode_2, 2, false)
DECODE(decode_4, 4, false)
DECODE(decode_8, 8, false)
DECODE(decode_add_1, 1, true)
DECODE(decode_add_2, 2, true)
DECODE(decode_add_4, 4, true)
DECODE(decode_add_8, 8, true)
