//! Sums of doubles, 4096 a pass.
//!
//! Specification: the sum of losses in `Backend::softmax_cross_entropy` of sylvie-tensor, in another order
//!   that depends on their number alone.
//! Shapes: x: n_values; out: ceil(n_values / 4096).
//! Bytes: 8 a value.
#ifndef SYLVIE_CUH
#include "sylvie.cuh"
#endif

#define SUM_VALUES 4096

KERNEL sum_f64(const double* __restrict__ x, double* __restrict__ out, u64 n_values) {
    SHARED(double, partial, BLOCK_THREADS);
    const u64 n_sums = (n_values + SUM_VALUES - 1) / SUM_VALUES;
    for (u64 place = blockIdx.x; place < n_sums; place += gridDim.x) {
        const u64 first = place * SUM_VALUES, last = min(first + SUM_VALUES, n_values);
        double sum = 0.0;
        for (u64 at = first + threadIdx.x; at < last; at += BLOCK_THREADS) sum += x[at];
        partial[threadIdx.x] = sum;
        __syncthreads();
        for (u32 half = BLOCK_THREADS / 2; half != 0; half /= 2) {
            if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
            __syncthreads();
        }
        if (threadIdx.x == 0) out[place] = partial[0];
    }
}
