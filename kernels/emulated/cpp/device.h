//! CUDA's words for a C++ compiler: what `kernels/cuda/*.cu` are compiled with for the CPU.
#ifndef SYLVIE_EMULATED_DEVICE_H
#define SYLVIE_EMULATED_DEVICE_H

#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime.h"

#define SYLVIE_EMULATED
#define KERNEL static void
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define SHARED(type, name, count) \
    type* const name =            \
        static_cast<type*>(::sylvie_emulated::shared(#name, __LINE__, sizeof(type) * (count)))
#define CHECK_ALIGNED(pointer)                      \
    (reinterpret_cast<uintptr_t>(pointer) % 16 == 0 \
         ? (void)0                                  \
         : ::sylvie_emulated::fail("sixteen bytes at once where they are not aligned"))

#define threadIdx (::sylvie_emulated::view->thread)
#define blockIdx (::sylvie_emulated::view->block)
#define blockDim (::sylvie_emulated::view->block_dim)
#define gridDim (::sylvie_emulated::view->grid_dim)

// ---- Vectors

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace sylvie_emulated {

template <class T>
uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "what a shuffle carries");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T>
T from_bits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T>
T shuffled(Meeting what, unsigned mask, T value, unsigned argument, unsigned width) {
    return from_bits<T>(meet(what, mask, to_bits(value), argument, width, 0));
}

/// A kernel's entry of the table.
template <class Kernel, Kernel* KERNEL_>
struct Entry;
template <class... Parameters, void (*KERNEL_)(Parameters...)>
struct Entry<void(Parameters...), KERNEL_> {
    static constexpr size_t n_parameters = sizeof...(Parameters);
    static constexpr size_t sizes[sizeof...(Parameters)] = {sizeof(Parameters)...};
    template <size_t... Places>
    static void run_with(void** arguments, std::index_sequence<Places...>) {
        KERNEL_(*static_cast<std::remove_reference_t<Parameters>*>(arguments[Places])...);
    }
    static void run(void** arguments) { run_with(arguments, std::index_sequence_for<Parameters...>()); }
};
#define SYLVIE_EMULATED_ENTRY(file, name)                                       \
    {#name, &::sylvie_emulated::Entry<decltype(file::name), &file::name>::run,  \
     ::sylvie_emulated::Entry<decltype(file::name), &file::name>::n_parameters, \
     ::sylvie_emulated::Entry<decltype(file::name), &file::name>::sizes}

}  // namespace sylvie_emulated

// ---- Meetings

#define SYLVIE_EMULATED_MEET(what, mask, value, line) \
    ::sylvie_emulated::meet(::sylvie_emulated::Meeting::what, mask, value, 0, 32, line)
// Macros, so that a barrier knows its line: threads that meet at different barriers are an error.
#define __syncthreads() ((void)SYLVIE_EMULATED_MEET(barrier, 0, 0, __LINE__))
#define __syncthreads_count(p) ((int)SYLVIE_EMULATED_MEET(barrier_count, 0, (p) != 0, __LINE__))
#define __syncthreads_and(p) ((int)SYLVIE_EMULATED_MEET(barrier_and, 0, (p) != 0, __LINE__))
#define __syncthreads_or(p) ((int)SYLVIE_EMULATED_MEET(barrier_or, 0, (p) != 0, __LINE__))

static inline void __syncwarp(unsigned mask = ~0u) { SYLVIE_EMULATED_MEET(sync_warp, mask, 0, 0); }
static inline unsigned __ballot_sync(unsigned mask, int p) {
    return (unsigned)SYLVIE_EMULATED_MEET(ballot, mask, p != 0, 0);
}
static inline int __any_sync(unsigned mask, int p) {
    return (int)SYLVIE_EMULATED_MEET(any, mask, p != 0, 0);
}
static inline int __all_sync(unsigned mask, int p) {
    return (int)SYLVIE_EMULATED_MEET(all, mask, p != 0, 0);
}
static inline unsigned __reduce_add_sync(unsigned mask, unsigned v) {
    return (unsigned)SYLVIE_EMULATED_MEET(reduce_add, mask, v, 0);
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned v) {
    return (unsigned)SYLVIE_EMULATED_MEET(reduce_min, mask, v, 0);
}
static inline unsigned __reduce_max_sync(unsigned mask, unsigned v) {
    return (unsigned)SYLVIE_EMULATED_MEET(reduce_max, mask, v, 0);
}
static inline unsigned __reduce_and_sync(unsigned mask, unsigned v) {
    return (unsigned)SYLVIE_EMULATED_MEET(reduce_and, mask, v, 0);
}
static inline unsigned __reduce_or_sync(unsigned mask, unsigned v) {
    return (unsigned)SYLVIE_EMULATED_MEET(reduce_or, mask, v, 0);
}
static inline unsigned __reduce_xor_sync(unsigned mask, unsigned v) {
    return (unsigned)SYLVIE_EMULATED_MEET(reduce_xor, mask, v, 0);
}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, unsigned lane, unsigned width = 32) {
    return ::sylvie_emulated::shuffled(::sylvie_emulated::Meeting::shuffle, mask, value, lane, width);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, unsigned width = 32) {
    return ::sylvie_emulated::shuffled(::sylvie_emulated::Meeting::shuffle_up, mask, value, delta, width);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, unsigned width = 32) {
    return ::sylvie_emulated::shuffled(::sylvie_emulated::Meeting::shuffle_down, mask, value, delta, width);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, unsigned flips, unsigned width = 32) {
    return ::sylvie_emulated::shuffled(::sylvie_emulated::Meeting::shuffle_xor, mask, value, flips, width);
}

// A store of sixteen bytes.
static inline void __stwb(float4* place, float4 value) { *place = value; }

// ---- Atomics

static inline unsigned long long atomicMin(unsigned long long* place, unsigned long long value) {
    return ::sylvie_emulated::atomic_min(place, value);
}

// ---- Arithmetic; nothing is fused, by -ffp-contract=off

static inline unsigned __float_as_uint(float value) { return (unsigned)::sylvie_emulated::to_bits(value); }
static inline float __uint_as_float(unsigned bits) { return ::sylvie_emulated::from_bits<float>(bits); }
static inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz((unsigned)value); }
static inline int min(int a, int b) { return b < a ? b : a; }
static inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
static inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
static inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }

#endif
