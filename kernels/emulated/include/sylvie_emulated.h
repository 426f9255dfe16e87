/* The emulated device: kernels by name, launched on the CPU, and memory whose bounds are watched.
 *
 * A stand-in for libcuda needs no more than this. Everything may be called from any thread; a launch is over
 * when the call returns, and launches of several threads run side by side.
 *
 * A crate that depends on sylvie-kernels-emulated finds, in its build script, DEP_SYLVIE_KERNELS_EMULATED_INCLUDE (the
 * folder of this file) and DEP_SYLVIE_KERNELS_EMULATED_LIB (the static library, position-independent; its C++ runtime is
 * the compiler's). Rust code takes the same functions from sylvie_kernels_emulated::raw.
 */
#ifndef SYLVIE_EMULATED_H
#define SYLVIE_EMULATED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sylvie_emulated_kernel sylvie_emulated_kernel;

/* The kernel with this entry name, or NULL. It lives for ever. */
const sylvie_emulated_kernel* sylvie_emulated_find(const char* entry);

/* The number of the kernel's parameters; *sizes (if sizes is not NULL) becomes their sizes in bytes. */
size_t sylvie_emulated_parameters(const sylvie_emulated_kernel* kernel, const size_t** sizes);

/* Runs a grid to its end. arguments[i] points to the value of parameter i, as with cuLaunchKernel.
 *
 * Returns 0, or else writes why not into error (error_bytes of it, NUL included): an impossible grid, threads
 * that wait for each other for ever, a lane that a mask names and that never comes, a barrier that
 * only some threads reach, an access outside of any allocation, and, where races are watched, two threads
 * that touch the same byte without a barrier between. Memory is then as the threads had left it.
 */
int sylvie_emulated_launch(const sylvie_emulated_kernel* kernel, const uint32_t grid[3],
                           const uint32_t block[3], size_t shared_bytes, void** arguments, char* error,
                           size_t error_bytes);

/* Device memory at a multiple of 256 bytes, filled with 0xff (NaNs, and indices that lead nowhere). It is watched: a
 * kernel that touches a byte beside it fails. NULL for 0 bytes, or when there is no more.
 *
 * Ordinary code may read and write it. Kernels may also be given other memory, which is not watched.
 */
void* sylvie_emulated_alloc(size_t bytes);

/* Gives memory back; 0, or else 1 for what is not the start of an allocation. */
int sylvie_emulated_free(void* memory);

/* Whether bytes from memory on lie in one allocation. */
int sylvie_emulated_holds(const void* memory, size_t bytes);

/* In which order this thread's launches let lanes run between two meetings, and blocks: 0 forward, 1 backward, any other
 * number the seed of a shuffle. The first order of each thread is that of the variable SYLVIE_EMULATED_ORDER
 * (such a number), else 0. */
void sylvie_emulated_set_order(uint64_t order);

/* Whether this thread's launches watch every byte for races; 0 at first, for it slows them down a hundredfold. */
void sylvie_emulated_watch_races(int watches);

#ifdef __cplusplus
}
#endif

#endif
