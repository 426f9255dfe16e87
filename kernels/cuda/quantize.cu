//! Rows to codes of 1, 2, 4 or 8 bits, with a zero point and a scale a row.
//!
//! Specification: `sylvie_lowbit::Plain::encode_rows`, byte for byte; the bytes are those of
//!   docs/wire-format.md.
//! Shapes: `x` any x n_cols; rows (or null), keys: n_rows; message: n_rows pairs of metadata, then n_rows
//!   payloads of ceil(n_cols * BITS / 8) bytes, at any address.
//! Work: a lane takes sixteen columns, one block of draws; up to 32 neighbouring lanes take a row. Rows of
//!   at most 512 columns stay in registers between range and rounding.
//! Bytes: 4 n_cols read and the message written a row; rows of more than 512 columns are read again, from
//!   cache.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

struct Levels {
    float zero, scale;
    DEVICE_MEMBER float value(u32 code) const { return zero + (float)code * scale; }
};

/// Types of metadata, by their number in the arguments.
enum Metadata : u32 { F32 = 0, BF16 = 1, F16 = 2 };

DEVICE float metadata_value(u32 type, u32 pattern) {
    return type == F32 ? __uint_as_float(pattern) : type == BF16 ? bf16_value(pattern) : f16_value(pattern);
}
DEVICE u32 metadata_nearest(u32 type, float x) {
    return type == F32 ? __float_as_uint(x) : type == BF16 ? bf16_nearest(x) : f16_nearest(x);
}

/// The largest value of the type that is at most `x`; -0 becomes +0.
DEVICE float largest_at_most(u32 type, float x) {
    if (type == F32) return x + 0.0f;
    if (type == BF16) {
        const u32 bits = __float_as_uint(x), below = x < 0.0f && (bits & 0xffff) != 0 ? 0x10000 : 0;
        return __uint_as_float((bits & 0xffff0000) + below) + 0.0f;
    }
    u32 pattern = f16_nearest(x);
    if (f16_value(pattern) > x)
        pattern = (pattern & 0x7fff) == 0 ? 0x8001 : (pattern & 0x8000) == 0 ? pattern - 1 : pattern + 1;
    return f16_value(pattern) + 0.0f;
}

/// The smallest scale of the type that lifts `max_code` to `high`; infinity when no finite one does.
DEVICE float smallest_scale(u32 type, float zero, float high, u32 max_code) {
    const u32 infinity = type == F32 ? 0x7f800000 : type == BF16 ? 0x7f80 : 0x7c00;
    auto accepts = [=](u32 pattern) {
        return Levels{zero, metadata_value(type, pattern)}.value(max_code) >= high;
    };
    const u32 near =
        min(max(metadata_nearest(type, (high - zero) * (1.0f / (float)max_code)), 1u), infinity - 1);
    for (u32 pattern = near; pattern <= near + 1; ++pattern)
        if (accepts(pattern) && !accepts(pattern - 1)) return metadata_value(type, pattern);
    // The patterns of values from +0 to infinity ascend with the values.
    u32 low = 0, top = infinity;
    while (low < top) {
        const u32 middle = low + (top - low) / 2;
        if (accepts(middle)) {
            top = middle;
        } else {
            low = middle + 1;
        }
    }
    return metadata_value(type, top);
}

/// Whether 24 random bits lift `value` from its place between two levels to the upper one.
DEVICE bool reaches(float value, float below, float above, u32 fraction) {
    const double step = (double)above - (double)below;
    const double missing = ((double)above - (double)value) * 16777216.0;
    return below != value && (double)fraction * step >= missing;
}

/// The 16 further bits of a column.
DEVICE u32 tie_of(Draws draws, u32 key, u32 column) {
    const uint4 block = random_block<7>(draws, key, 0x80000000u | column / 8);
    return word_of(block, column % 8 / 2) >> (column % 2 * 16) & 0xffff;
}

/// Whether a value between two levels is rounded up, by its 8 random bits and, rarely, 16 more.
DEVICE bool rounds_up(float value, float below, float above, u32 byte, Draws draws, u32 key, u32 column) {
    // In single precision, with a margin of 2^-10 of a 256th of the step for its rounding; what that leaves
    // open, and steps whose products could overflow or underflow, the exact rule decides.
    const float step = above - below, missing = (above - value) * 256.0f;
    if (below == value) return false;
    if (step >= 0x1p-100f && step <= 0x1p110f) {
        if (((float)byte - 0x1p-10f) * step >= missing) return true;
        if (((float)byte + (1.0f + 0x1p-10f)) * step <= missing) return false;
    }
    const u32 least = byte << 16;
    if (reaches(value, below, above, least)) return true;
    if (!reaches(value, below, above, least | 0xffff)) return false;
    return reaches(value, below, above, least | tie_of(draws, key, column));
}

/// The code of one value of a row whose scale is not 0.
template <u32 BITS>
DEVICE u32 code_of(float value, Levels levels, float reciprocal, u32 byte, Draws draws, u32 key,
                   u32 column) {
    const u32 max_code = (1 << BITS) - 1;
    u32 code = 0;
    float below = levels.value(0), above = levels.value(1);
    if (BITS > 1) {
        // A guess that exact comparisons then correct. The maximum makes 0 of a NaN.
        code = (u32)fminf(fmaxf((value - levels.zero) * reciprocal, 0.0f), (float)max_code);
        below = levels.value(code);
        above = levels.value(code + 1);
        while (below > value) {
            --code;
            above = below;
            below = levels.value(code);
        }
        while (above <= value && code < max_code) {
            ++code;
            below = above;
            above = levels.value(code + 1);
        }
    }
    return code + rounds_up(value, below, above, byte, draws, key, column);
}

/// Sixteen values of a row, of which the last may repeat the row's first: that changes no range.
struct Piece {
    float v[16];
};

DEVICE Piece load_piece(const float* row, u32 column, u32 n_cols, bool wide) {
    const float rest = row[0];
    Piece piece;
#pragma unroll
    for (u32 i = 0; i < 16; i += 4) {
        float4 four = make_float4(rest, rest, rest, rest);
        if (column + i < n_cols) four = load4(row + column + i, n_cols - column - i, wide, rest);
        piece.v[i] = four.x;
        piece.v[i + 1] = four.y;
        piece.v[i + 2] = four.z;
        piece.v[i + 3] = four.w;
    }
    return piece;
}

/// Minimum, maximum and largest magnitude, as bits, of a row.
struct Bounds {
    float low, high;
    u32 magnitude;
};

DEVICE Bounds bounds_of(Group group, const float* row, u32 n_cols, bool wide, Piece& last) {
    Bounds bounds = {INFINITE, -INFINITE, 0};
    for (u32 column = 16 * group.lane; column < n_cols; column += 16 * group.lanes) {
        last = load_piece(row, column, n_cols, wide);
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            bounds.low = fminf(bounds.low, last.v[i]);
            bounds.high = fmaxf(bounds.high, last.v[i]);
            bounds.magnitude = max(bounds.magnitude, __float_as_uint(last.v[i]) & 0x7fffffff);
        }
    }
    bounds.low = group_min(group, bounds.low);
    bounds.high = group_max(group, bounds.high);
    bounds.magnitude = group_max(group, bounds.magnitude);
    return bounds;
}

/// The first column of a row that holds a NaN or an infinity.
DEVICE u32 first_not_finite(Group group, const float* row, u32 n_cols) {
    u32 first = n_cols;
    for (u32 column = group.lane; column < n_cols; column += group.lanes)
        if (!is_finite(row[column])) first = min(first, column);
    return group_min(group, first);
}

/// Levels for a row's bounds; false, and reported, where there are none.
DEVICE bool enclose(Bounds bounds, u32 max_code, u32 metadata, u64* status, u64 row, bool reports,
                    Levels& levels) {
    levels.zero = largest_at_most(metadata, bounds.low);
    Reason reason = METADATA;
    bool is_possible = is_finite(levels.zero);
    if (is_possible && !is_finite(bounds.high - bounds.low)) {
        reason = RANGE;
        is_possible = false;
    }
    if (is_possible) {
        levels.scale = smallest_scale(metadata, levels.zero, bounds.high, max_code);
        is_possible = is_finite(levels.scale);
    }
    if (is_possible && !is_finite(levels.value(max_code))) {
        reason = RANGE;
        is_possible = false;
    }
    if (!is_possible && reports) refuse(status, row, reason, 0);
    return is_possible;
}

DEVICE void store_metadata(u32 type, Levels levels, u8* message, u64 row) {
    const u32 bytes = type == F32 ? 4 : 2;
    u8* at = message + row * (2 * bytes);
    const u32 zero =
        type == F16 ? f16_nearest(levels.zero) : __float_as_uint(levels.zero) >> (type == F32 ? 0 : 16);
    const u32 scale =
        type == F16 ? f16_nearest(levels.scale) : __float_as_uint(levels.scale) >> (type == F32 ? 0 : 16);
    for (u32 i = 0; i < bytes; ++i) {
        at[i] = (u8)(zero >> (8 * i));
        at[bytes + i] = (u8)(scale >> (8 * i));
    }
}

/// Writes the first `n_bytes` of the `2 * BITS` bytes in `words`.
template <u32 BITS>
DEVICE void store_codes(u8* at, const u32 (&words)[4], u32 n_bytes) {
    if (n_bytes == 2 * BITS && is_aligned(at, 2 * BITS)) {
        if (BITS == 1) *reinterpret_cast<u16*>(at) = (u16)words[0];
        if (BITS == 2) *reinterpret_cast<u32*>(at) = words[0];
        if (BITS == 4) *reinterpret_cast<uint2*>(at) = make_uint2(words[0], words[1]);
        if (BITS == 8) *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
        return;
    }
#pragma unroll
    for (u32 i = 0; i < 2 * BITS; ++i)
        if (i < n_bytes) at[i] = (u8)(words[i / 4] >> (i % 4 * 8));
}

/// Rounds a piece and writes its codes.
template <u32 BITS>
DEVICE void encode_piece(const Piece& piece, u32 column, u32 n_cols, Levels levels, Draws draws, u32 key,
                         u8* payload) {
    const u32 n = min(n_cols - column, 16u);
    u32 words[4] = {0, 0, 0, 0};
    if (levels.scale != 0.0f) {
        const float reciprocal = 1.0f / levels.scale;
        const uint4 random = random_block<7>(draws, key, column / 16);
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            const u32 byte = word_of(random, i / 4) >> (i % 4 * 8) & 0xff;
            if (i < n) {
                const u32 code =
                    code_of<BITS>(piece.v[i], levels, reciprocal, byte, draws, key, column + i);
                words[i * BITS / 32] |= code << (i * BITS % 32);
            }
        }
    }
    store_codes<BITS>(payload + column / 16 * (2 * BITS), words, (n * BITS + 7) / 8);
}

template <u32 BITS>
DEVICE void encode(const float* x, const u32* rows, const u32* keys, u8* message, u64* status, u32 n_rows,
                   u32 n_cols, Draws draws, u32 metadata) {
    const Group group = group_of((n_cols + 15) / 16);
    const bool wide = is_wide(x, n_cols);
    const bool is_kept = n_cols <= 16 * group.lanes;
    const u64 metadata_bytes = metadata == F32 ? 8 : 4, payload_bytes = ((u64)n_cols * BITS + 7) / 8;
    for (u64 row = group.row; row < n_rows; row += group.step) {
        const float* values = x + (rows != nullptr ? rows[row] : row) * n_cols;
        Piece piece;
        const Bounds bounds = bounds_of(group, values, n_cols, wide, piece);
        if (bounds.magnitude >= 0x7f800000) {
            const u32 column = first_not_finite(group, values, n_cols);
            if (group.lane == 0) refuse(status, row, NOT_FINITE, column);
            continue;
        }
        Levels levels;
        if (!enclose(bounds, (1 << BITS) - 1, metadata, status, row, group.lane == 0, levels)) continue;
        if (group.lane == 0) store_metadata(metadata, levels, message, row);
        u8* payload = message + n_rows * metadata_bytes + row * payload_bytes;
        for (u32 column = 16 * group.lane; column < n_cols; column += 16 * group.lanes) {
            if (!is_kept) piece = load_piece(values, column, n_cols, wide);
            encode_piece<BITS>(piece, column, n_cols, levels, draws, keys[row], payload);
        }
    }
}

#define ENCODE(name, bits)                                                                               \
    KERNEL name(const float* __restrict__ x, const u32* __restrict__ rows, const u32* __restrict__ keys, \
                u8* __restrict__ message, u64* __restrict__ status, u32 n_rows, u32 n_cols, u32 key0,    \
                u32 key1, u32 epoch, u32 tag, u32 metadata) {                                            \
        encode<bits>(x, rows, keys, message, status, n_rows, n_cols, Draws{key0, key1, epoch, tag},      \
                     metadata);                                                                          \
    }
ENCODE(encode_1, 1)
ENCODE(encode_2, 2)
ENCODE(encode_4, 4)
ENCODE(encode_8, 8)
