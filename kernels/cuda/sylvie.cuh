//! What the kernels share: types, who takes which row, sixteen bytes at a time, sums over lanes, draws.
//!
//! The one header. It includes nothing, so that NVRTC takes it and a kernel file as one text. With
//! SYLVIE_EMULATED a C++ compiler takes them for the CPU instead (kernels/emulated).
#ifndef SYLVIE_CUH
#define SYLVIE_CUH

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static_assert(sizeof(u32) == 4 && sizeof(u64) == 8, "widths of integers");

// Threads of a block, as src/kernel.rs says.
#define BLOCK_THREADS 256

#ifndef SYLVIE_EMULATED
#define KERNEL extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
#define DEVICE __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
// An array that the threads of a block share.
#define SHARED(type, name, count) __shared__ type name[count]
// Does nothing on a device, which faults by itself.
#define CHECK_ALIGNED(pointer)
#endif

#define INFINITE __uint_as_float(0x7f800000)

// ---- Who takes what

/// The thread's place in the grid, and the number of threads.
DEVICE u64 thread_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u64 n_threads() { return (u64)gridDim.x * blockDim.x; }

/// Lanes of a warp that take a row together: a power of two, so that they are neighbours in one warp.
struct Group {
    u32 lanes;
    /// This thread among them.
    u32 lane;
    /// Them, for shuffles.
    u32 mask;
    /// The group's first row, and how far on its next one is.
    u64 row;
    u64 step;
};

/// Groups for rows of `n_pieces` pieces, one a lane: `lanes` of src/kernel.rs.
DEVICE Group group_of(u32 n_pieces) {
    const u32 shift = n_pieces <= 1 ? 0 : min(32 - __clz(n_pieces - 1), 5);
    Group group;
    group.lanes = 1u << shift;
    group.lane = threadIdx.x & (group.lanes - 1);
    const u32 first = (threadIdx.x & 31) & ~(group.lanes - 1);
    group.mask = (group.lanes == 32 ? ~0u : (1u << group.lanes) - 1) << first;
    group.row = thread_index() >> shift;
    group.step = n_threads() >> shift;
    return group;
}

/// Groups for rows of values of which a lane takes four.
DEVICE Group group_of_values(u32 n_cols) { return group_of(n_cols / 4 + (n_cols % 4 != 0)); }

/// Sum over the group's lanes, the same bits in every lane.
template <class T>
DEVICE T group_sum(Group group, T value) {
    for (u32 offset = group.lanes / 2; offset != 0; offset /= 2)
        value += __shfl_xor_sync(group.mask, value, offset);
    return value;
}
DEVICE float group_max(Group group, float value) {
    for (u32 offset = group.lanes / 2; offset != 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(group.mask, value, offset));
    return value;
}
DEVICE float group_min(Group group, float value) {
    for (u32 offset = group.lanes / 2; offset != 0; offset /= 2)
        value = fminf(value, __shfl_xor_sync(group.mask, value, offset));
    return value;
}
DEVICE u32 group_max(Group group, u32 value) {
    for (u32 offset = group.lanes / 2; offset != 0; offset /= 2)
        value = max(value, __shfl_xor_sync(group.mask, value, offset));
    return value;
}
DEVICE u32 group_min(Group group, u32 value) {
    for (u32 offset = group.lanes / 2; offset != 0; offset /= 2)
        value = min(value, __shfl_xor_sync(group.mask, value, offset));
    return value;
}

// ---- Four values at a time

DEVICE bool is_aligned(const void* pointer, u32 bytes) { return ((u64)pointer & (bytes - 1)) == 0; }

/// Whether rows of `n_cols` values at this address can be taken sixteen bytes at a time.
DEVICE bool is_wide(const float* x, u32 n_cols) { return is_aligned(x, 16) && n_cols % 4 == 0; }

/// Four values of which the first `n` exist (at least one); the others are `rest`. `wide`: by one access.
DEVICE float4 load4(const float* x, u64 n, bool wide, float rest = 0.0f) {
    if (wide) {
        CHECK_ALIGNED(x);
        return *reinterpret_cast<const float4*>(x);
    }
    float4 value = make_float4(x[0], rest, rest, rest);
    if (n > 1) value.y = x[1];
    if (n > 2) value.z = x[2];
    if (n > 3) value.w = x[3];
    return value;
}

DEVICE void store4(float* x, float4 value, u64 n, bool wide) {
    if (wide) {
        CHECK_ALIGNED(x);
        // By name: NVRTC takes a plain assignment apart into four stores in some kernels.
        __stwb(reinterpret_cast<float4*>(x), value);
        return;
    }
    x[0] = value.x;
    if (n > 1) x[1] = value.y;
    if (n > 2) x[2] = value.z;
    if (n > 3) x[3] = value.w;
}

/// `f` of each of the four.
template <class F>
DEVICE float4 map4(float4 a, F f) {
    return make_float4(f(a.x), f(a.y), f(a.z), f(a.w));
}
template <class F>
DEVICE float4 map4(float4 a, float4 b, F f) {
    return make_float4(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w));
}
DEVICE float4 add4(float4 a, float4 b) {
    return map4(a, b, [](float x, float y) { return x + y; });
}
/// `sum + factor * x`, not fused.
DEVICE float4 add_scaled4(float4 sum, float factor, float4 x) {
    return map4(sum, x, [factor](float s, float v) { return s + factor * v; });
}
DEVICE float sum4(float4 a) { return (a.x + a.y) + (a.z + a.w); }
DEVICE float dot4(float4 a, float4 b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); }

// ---- Sums of rows

/// `sum` and, for each of the entries `begin .. end` in their order, the factor times four columns of the
/// row that the entry names: `sum + factor * x`, not fused. With `SKIPS`, an entry whose factor is 0 is
/// left out and its row not read.
template <bool SKIPS, class RowOf, class FactorOf>
DEVICE float4 add_entries(float4 sum, u64 begin, u64 end, RowOf row_of, FactorOf factor_of, const float* x,
                          u32 column, u32 n_cols, bool wide) {
    const u32 n = n_cols - column;
    u64 at = begin;
    // Four rows at once are on their way, and are added one after the other.
    for (; at + 4 <= end; at += 4) {
        float factors[4];
        float4 values[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u64 row = row_of(at + i);
            factors[i] = factor_of(at + i, row);
            if (!SKIPS || factors[i] != 0.0f) values[i] = load4(x + row * n_cols + column, n, wide);
        }
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (!SKIPS || factors[i] != 0.0f) sum = add_scaled4(sum, factors[i], values[i]);
    }
    for (; at < end; ++at) {
        const u64 row = row_of(at);
        const float factor = factor_of(at, row);
        if (!SKIPS || factor != 0.0f)
            sum = add_scaled4(sum, factor, load4(x + row * n_cols + column, n, wide));
    }
    return sum;
}

#define TILE_ROWS 512
#define TILE_COLUMNS 128
#define N_WARPS (BLOCK_THREADS / 32)

/// Sums of columns over `TILE_ROWS` rows, a row of `out` for each such tile.
///
/// A block takes a tile: a warp every eighth row, a lane four columns; the warps' sums are added in their
/// order. `value(row, column, n)` gives the four values from a column on, of which `n` exist.
template <class Value>
DEVICE void sum_tiles(Value value, float* out, u32 n_rows, u32 n_cols, bool adds) {
    SHARED(float4, partial, BLOCK_THREADS);
    const u64 n_column_tiles = (n_cols + (u64)TILE_COLUMNS - 1) / TILE_COLUMNS;
    const u64 n_tiles = (n_rows + (u64)TILE_ROWS - 1) / TILE_ROWS * n_column_tiles;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u64 tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        const u64 first = tile / n_column_tiles * TILE_ROWS, last = min(first + TILE_ROWS, (u64)n_rows);
        const u64 column = tile % n_column_tiles * TILE_COLUMNS + 4 * lane;
        float4 sum = make_float4(0, 0, 0, 0);
        if (column < n_cols) {
#pragma unroll 4
            for (u64 row = first + warp; row < last; row += N_WARPS)
                sum = add4(sum, value(row, (u32)column, n_cols - (u32)column));
        }
        partial[threadIdx.x] = sum;
        __syncthreads();
        if (warp == 0 && column < n_cols) {
            for (u32 other = 1; other < N_WARPS; ++other) sum = add4(sum, partial[32 * other + lane]);
            float* at = out + first / TILE_ROWS * n_cols + column;
            const bool wide = is_wide(out, n_cols);
            if (adds) sum = add4(load4(at, n_cols - column, wide), sum);
            store4(at, sum, n_cols - column, wide);
        }
        __syncthreads();
    }
}

// ---- Draws: sylvie_random::Family

struct Draws {
    u32 key0, key1, epoch, tag;
};

/// Philox4x32 with `ROUNDS` rounds at counter `[column_block, node, epoch, tag]`.
template <int ROUNDS>
DEVICE uint4 random_block(Draws draws, u32 node, u32 column_block) {
    u32 c0 = column_block, c1 = node, c2 = draws.epoch, c3 = draws.tag;
    u32 k0 = draws.key0, k1 = draws.key1;
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c1 = (u32)p1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

DEVICE u32 word_of(uint4 block, u32 word) {
    return word < 2 ? (word == 0 ? block.x : block.y) : (word == 2 ? block.z : block.w);
}

// ---- Half precision, rounded to nearest with ties to even; never NaN

DEVICE u32 bf16_nearest(float x) {
    const u32 bits = __float_as_uint(x);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
DEVICE float bf16_value(u32 pattern) { return __uint_as_float(pattern << 16); }

DEVICE u32 f16_nearest(float x) {
    const u32 bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) return sign | 0x7c00;
    // Below 2^-14 values are multiples of 2^-24, the last place of one half.
    if (magnitude < 0x38800000)
        return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000);
    return sign | (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
}
DEVICE float f16_value(u32 pattern) {
    const u32 sign = (pattern & 0x8000) << 16, exponent = pattern >> 10 & 31, fraction = pattern & 0x3ff;
    if (exponent == 0) return __uint_as_float(__float_as_uint(fraction * 0x1p-24f) | sign);
    const u32 scaled = exponent == 31 ? 0x7f800000 : (exponent + 112) << 23;
    return __uint_as_float(sign | scaled | fraction << 13);
}

DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7fffffff) < 0x7f800000; }

// ---- Refusals: src/status.rs

enum Reason : u32 { NOT_FINITE = 0, METADATA = 1, RANGE = 2, VALUE_OVERFLOW = 3 };

DEVICE void refuse(u64* status, u64 row, Reason reason, u32 column) {
    atomicMin(status, row << 32 | (u64)reason << 30 | column);
}

#endif
