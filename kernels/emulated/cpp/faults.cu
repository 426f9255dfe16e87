//! Kernels with a fault each, by which the device's checks are checked.
//! Each takes an array of one block's size.

KERNEL fault_barrier_for_some(u32* __restrict__ x) {
    if (threadIdx.x < 32) __syncthreads();
    x[threadIdx.x] = 1;
}

KERNEL fault_two_barriers(u32* __restrict__ x) {
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    x[threadIdx.x] = 1;
}

KERNEL fault_mask_without_caller(u32* __restrict__ x) {
    x[threadIdx.x] = __ballot_sync(0xffff, threadIdx.x < 3);
}

KERNEL fault_mask_names_the_absent(u32* __restrict__ x) {
    if (threadIdx.x % 32 < 20) x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
}

KERNEL fault_shuffle_from_outside(u32* __restrict__ x) {
    if (threadIdx.x % 32 < 8) x[threadIdx.x] = __shfl_xor_sync(0xff, x[threadIdx.x], 8);
}

KERNEL fault_masks_that_differ(u32* __restrict__ x) {
    x[threadIdx.x] = __any_sync(threadIdx.x % 2 == 0 ? ~0u : 0xfffffffe, 1);
}

KERNEL fault_reads_behind(u32* __restrict__ x) { x[threadIdx.x] = x[threadIdx.x + 1]; }

KERNEL fault_writes_before(u32* __restrict__ x) { x[(u64)threadIdx.x - 1] = 1; }

KERNEL fault_shared_overrun(u32* __restrict__ x) {
    SHARED(u32, part, 64);
    part[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = part[0];
}

KERNEL fault_no_barrier(u32* __restrict__ x) {
    SHARED(u32, part, BLOCK_THREADS);
    part[threadIdx.x] = threadIdx.x;
    x[threadIdx.x] = part[threadIdx.x ^ 32];
}

KERNEL fault_overwrites_what_is_read(u32* __restrict__ x) {
    SHARED(u32, part, BLOCK_THREADS);
    for (u32 turn = 0; turn < 2; ++turn) {
        part[threadIdx.x] = turn;
        __syncthreads();
        x[threadIdx.x] = part[BLOCK_THREADS - 1 - threadIdx.x];
    }
}

KERNEL fault_shuffle_for_a_barrier(u32* __restrict__ x) {
    SHARED(u32, part, BLOCK_THREADS);
    part[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 1);
    x[threadIdx.x] = __any_sync(~0u, 1) + part[threadIdx.x ^ 1];
}

KERNEL fault_other_lanes_barrier(u32* __restrict__ x) {
    SHARED(u32, part, BLOCK_THREADS);
    part[threadIdx.x] = 1;
    __syncwarp(threadIdx.x % 32 < 16 ? 0xffff : 0xffff0000);
    x[threadIdx.x] = part[threadIdx.x ^ 16];
}

KERNEL fault_blocks_share_a_word(u32* __restrict__ x) {
    if (threadIdx.x == 0) x[0] = x[0] + 1;
}

KERNEL fault_not_aligned(float* __restrict__ x) {
    if (threadIdx.x == 1) store4(x + 1, make_float4(0, 0, 0, 0), 4, true);
}

KERNEL fault_null(u32* __restrict__ x) { x[threadIdx.x] = 1; }

/// Without a fault: lanes that hand values to each other behind barriers of their own.
KERNEL handed_over(u32* __restrict__ x) {
    SHARED(u32, part, BLOCK_THREADS);
    part[threadIdx.x] = threadIdx.x;
    __syncwarp(threadIdx.x % 32 < 16 ? 0xffff : 0xffff0000);
    const u32 near = part[threadIdx.x ^ 8];
    __syncthreads();
    part[threadIdx.x] = near;
    __syncthreads();
    x[threadIdx.x] = part[threadIdx.x ^ 128];
}

/// Without a fault: what each meeting gives.
KERNEL meetings(u32* __restrict__ x) {
    const u32 lane = threadIdx.x % 32, own = lane * 3 + 1;
    u32* out = x + threadIdx.x;
    const u32 values[16] = {
        __ballot_sync(~0u, lane % 3 == 0), (u32)__any_sync(~0u, lane == 7), (u32)__any_sync(~0u, 0),
        (u32)__all_sync(~0u, lane < 32),   (u32)__all_sync(~0u, lane < 31), __reduce_add_sync(~0u, own),
        __reduce_min_sync(~0u, own),       __reduce_max_sync(~0u, own),     __reduce_and_sync(~0u, own | 4),
        __reduce_or_sync(~0u, own),        __reduce_xor_sync(~0u, own),     __shfl_sync(~0u, own, 35),
        __shfl_up_sync(~0u, own, 2),       __shfl_down_sync(~0u, own, 30),  __shfl_sync(~0u, own, 2, 8),
        __shfl_xor_sync(~0u, own, 5)};
    const u32 block[3] = {(u32)__syncthreads_count(threadIdx.x < 10),
                          (u32)__syncthreads_and(threadIdx.x < 10),
                          (u32)__syncthreads_or(threadIdx.x < 10)};
    for (u32 i = 0; i < 16; ++i) out[i * BLOCK_THREADS] = values[i];
    for (u32 i = 0; i < 3; ++i) out[(16 + i) * BLOCK_THREADS] = block[i];
}
