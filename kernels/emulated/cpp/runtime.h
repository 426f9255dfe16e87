//! What kernels, scheduler and memory of the emulated device know of each other.
#ifndef SYLVIE_EMULATED_RUNTIME_H
#define SYLVIE_EMULATED_RUNTIME_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "sylvie_emulated.h"

/// A kernel as it was compiled for the CPU.
struct sylvie_emulated_kernel {
    const char* name;
    /// Runs one thread of it, on arguments as cuLaunchKernel takes them.
    void (*run)(void** arguments);
    size_t n_parameters;
    const size_t* sizes;
};

namespace sylvie_emulated {

/// The table that build.rs writes; it ends with a nameless entry.
extern "C" const sylvie_emulated_kernel sylvie_emulated_kernels[];

struct Index {
    uint32_t x, y, z;
};

/// What a thread of a grid sees of itself.
struct View {
    Index thread, block, block_dim, grid_dim;
};

/// The thread that runs now.
extern thread_local View* view;

/// What threads wait for each other in.
enum class Meeting : uint8_t {
    none,
    // Of a block.
    barrier,
    barrier_count,
    barrier_and,
    barrier_or,
    // Of the lanes that a mask names.
    sync_warp,
    ballot,
    any,
    all,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    reduce_add,
    reduce_min,
    reduce_max,
    reduce_and,
    reduce_or,
    reduce_xor,
};

/// Waits for the others, and gives back what this thread gets from the meeting.
uint64_t meet(Meeting what, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width, int line);

/// An array that the threads of the block share, by its name and line.
void* shared(const char* name, int line, size_t bytes);

/// Ends the launch with a message about the thread that runs now.
[[noreturn]] void fail(const std::string& message);

// ---- Memory

enum class Access : uint8_t { read, write, atomic };

/// Fails unless the running thread may do this.
void touch(uintptr_t address, size_t bytes, Access access);

/// A real atomic operation: launches of several threads may share memory.
unsigned long long atomic_min(unsigned long long* place, unsigned long long value);

/// Who touches memory: a thread between two barriers.
struct Toucher {
    uint32_t block, thread;
    /// Barriers that its block has behind it, and numbers of __syncwarp that its warp has.
    uint32_t barriers, syncs;
    /// Its own last __syncwarp, and the lanes that took part.
    uint32_t last_sync, synced_with;
};
/// The running thread; `false` outside of a launch.
bool toucher(Toucher& who);

/// Begins and ends the watch over races of this CPU thread's launch.
void begin_watch();
void end_watch();
/// Forgets who touched these bytes.
void forget(const void* memory, size_t bytes);

}  // namespace sylvie_emulated

#endif
