//! Blocks of threads on one CPU thread: who runs when, and what they get from meetings.
//!
//! A thread runs on a stack of its own until it waits for others or ends. When no thread can run on,
//! meetings whose threads are all there take place: of warps first, then of the block. Where none can, the
//! launch has failed.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fiber.h"
#include "runtime.h"

namespace sylvie_emulated {

thread_local View* view = nullptr;

namespace {

constexpr uint32_t LANES = 32;
constexpr uint32_t MAX_THREADS = 1024;
constexpr size_t MAX_SHARED_BYTES = 48 * 1024;

const char* const MEETING_NAMES[] = {
    "nothing",           "__syncthreads",     "__syncthreads_count", "__syncthreads_and",
    "__syncthreads_or",  "__syncwarp",        "__ballot_sync",       "__any_sync",
    "__all_sync",        "__shfl_sync",       "__shfl_up_sync",      "__shfl_down_sync",
    "__shfl_xor_sync",   "__reduce_add_sync", "__reduce_min_sync",   "__reduce_max_sync",
    "__reduce_and_sync", "__reduce_or_sync",  "__reduce_xor_sync"};

bool is_of_block(Meeting what) { return what >= Meeting::barrier && what <= Meeting::barrier_or; }

enum class State : uint8_t { ready, waiting, done };

struct Fiber {
    Stack stack;
    Context context;
};

/// A thread of the block, and what it brought to the meeting that it waits in.
struct Thread {
    View view;
    /// The stack that it was left on; none before it begins.
    Fiber* fiber = nullptr;
    State state = State::ready;
    Meeting what = Meeting::none;
    uint32_t mask = 0, argument = 0, width = LANES;
    int line = 0;
    uint64_t value = 0, result = 0;
    /// Its last __syncwarp, by number within the warp, and whom that was with.
    uint32_t last_sync = 0, synced_with = 0;
};

struct SharedArray {
    const char* name;
    int line;
    size_t bytes;
    void* memory;
};

/// A sequence of numbers for shuffles.
struct Numbers {
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9E3779B97F4A7C15ull;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
    }
    template <class T>
    void shuffle(std::vector<T>& items) {
        for (size_t n = items.size(); n > 1; --n) std::swap(items[n - 1], items[next() % n]);
    }
};

/// 0, 1, ... in the order of this number.
std::vector<uint32_t> in_order(uint32_t n, uint64_t order, Numbers& numbers) {
    std::vector<uint32_t> places(n);
    for (uint32_t i = 0; i < n; ++i) places[i] = order == 1 ? n - 1 - i : i;
    if (order > 1) numbers.shuffle(places);
    return places;
}

/// The launches of one CPU thread, one after the other.
class Device {
public:
    std::string launch(const sylvie_emulated_kernel& kernel, Index grid, Index block, void** arguments,
                       uint64_t order);
    uint64_t meet(Meeting what, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width, int line);
    void* shared(const char* name, int line, size_t bytes);
    [[noreturn]] void fail(const std::string& message);
    bool is_running() const { return current != nullptr; }
    bool toucher(Toucher& who) const;

private:
    const sylvie_emulated_kernel* kernel = nullptr;
    void** arguments = nullptr;
    std::vector<Thread> threads;
    Thread* current = nullptr;
    uint32_t block_index = 0, barriers = 0;
    std::vector<uint32_t> syncs;  // __syncwarp of each warp.
    std::vector<SharedArray> arrays;
    std::string error;
    Context scheduler;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle;

    static void fiber_main();
    void run_block(const View& view, uint64_t order, Numbers& numbers);
    void resume(Thread& thread);
    void leave();
    bool meet_warp(uint32_t warp);
    bool is_complete(uint32_t first, uint32_t lane);
    void take_place(uint32_t first, const Thread& caller);
    uint64_t shuffled(uint32_t first, uint32_t lane);
    bool meet_block();
    void report_stuck();
    std::string name_of(const Thread& thread) const;
    std::string place_of(const Thread& thread) const;
    void reset_fibers();
};

thread_local Device device;

// ---- Running

void Device::fiber_main() {
    for (;;) {
        device.kernel->run(device.arguments);
        Thread& thread = *device.current;
        thread.state = State::done;
        device.idle.push_back(thread.fiber);
        device.leave();
    }
}

void Device::leave() { switch_context(current->fiber->context, scheduler); }

void Device::resume(Thread& thread) {
    if (thread.fiber == nullptr) {
        if (idle.empty()) {
            fibers.emplace_back(new Fiber);
            fibers.back()->stack.prepare(fibers.back()->context, fiber_main);
            idle.push_back(fibers.back().get());
        }
        thread.fiber = idle.back();
        idle.pop_back();
    }
    current = &thread;
    view = &thread.view;
    switch_context(scheduler, thread.fiber->context);
    current = nullptr;
}

/// After a failure, what was under way on the stacks is over.
void Device::reset_fibers() {
    idle.clear();
    for (auto& fiber : fibers) {
        fiber->stack.prepare(fiber->context, fiber_main);
        idle.push_back(fiber.get());
    }
}

void Device::fail(const std::string& message) {
    if (current == nullptr) {
        std::fprintf(stderr, "emulated device, outside of a launch: %s\n", message.c_str());
        std::abort();
    }
    error = name_of(*current) + ": " + message;
    current->state = State::done;
    leave();
    std::abort();  // Nobody comes back to a thread that is done.
}

bool Device::toucher(Toucher& who) const {
    if (current == nullptr) return false;
    const uint32_t thread = uint32_t(current - threads.data());
    who = {block_index, thread, barriers, syncs[thread / LANES], current->last_sync, current->synced_with};
    return true;
}

uint64_t Device::meet(Meeting what, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width,
                      int line) {
    Thread& thread = *current;
    const uint32_t lane = uint32_t(&thread - threads.data()) % LANES;
    if (!is_of_block(what) && (mask >> lane & 1) == 0)
        fail(std::string(MEETING_NAMES[int(what)]) + " with a mask that leaves the caller out");
    if (width == 0 || width > LANES || (width & (width - 1)) != 0)
        fail("a shuffle over " + std::to_string(width) + " lanes");
    thread.what = what;
    thread.mask = mask;
    thread.value = value;
    thread.argument = argument;
    thread.width = width;
    thread.line = line;
    thread.state = State::waiting;
    leave();
    return thread.result;
}

void* Device::shared(const char* name, int line, size_t bytes) {
    size_t total = bytes;
    for (const SharedArray& array : arrays) {
        if (array.line == line && std::strcmp(array.name, name) == 0) return array.memory;
        total += array.bytes;
    }
    if (total > MAX_SHARED_BYTES) fail(std::to_string(total) + " bytes of shared memory");
    void* memory = sylvie_emulated_alloc(bytes);
    if (memory == nullptr) fail("no memory for a shared array");
    arrays.push_back({name, line, bytes, memory});
    return memory;
}

void Device::run_block(const View& block_view, uint64_t order, Numbers& numbers) {
    const Index size = block_view.block_dim;
    threads.assign(size.x * size.y * size.z, Thread());
    syncs.assign((threads.size() + LANES - 1) / LANES, 0);
    barriers = 0;
    for (uint32_t i = 0; i < threads.size(); ++i) {
        threads[i].view = block_view;
        threads[i].view.thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    }
    // What shared memory holds when a block begins is nobody's business.
    for (const SharedArray& array : arrays) {
        std::memset(array.memory, 0xff, array.bytes);
        forget(array.memory, array.bytes);
    }
    for (;;) {
        bool are_all_done = true;
        for (uint32_t i : in_order(uint32_t(threads.size()), order, numbers)) {
            if (threads[i].state == State::ready) resume(threads[i]);
            if (!error.empty()) return;
            are_all_done = are_all_done && threads[i].state == State::done;
        }
        if (are_all_done) return;
        bool has_moved = false;
        for (uint32_t warp = 0; warp < syncs.size() && error.empty(); ++warp)
            has_moved = meet_warp(warp) || has_moved;
        if (error.empty() && !has_moved && !meet_block()) report_stuck();
        if (!error.empty()) return;
    }
}

std::string Device::launch(const sylvie_emulated_kernel& launched, Index grid, Index block, void** values,
                           uint64_t order) {
    kernel = &launched;
    arguments = values;
    error.clear();
    Numbers numbers = {order};
    const uint32_t n_blocks = grid.x * grid.y * grid.z;
    for (uint32_t place : in_order(n_blocks, order, numbers)) {
        block_index = place;
        const Index at = {place % grid.x, place / grid.x % grid.y, place / (grid.x * grid.y)};
        run_block(View{{0, 0, 0}, at, block, grid}, order, numbers);
        if (!error.empty()) break;
    }
    for (const SharedArray& array : arrays) sylvie_emulated_free(array.memory);
    arrays.clear();
    current = nullptr;
    if (!error.empty()) reset_fibers();
    return error.empty() ? error : std::string(launched.name) + ": " + error;
}

// ---- Meetings of a warp

/// Whether all that the mask of a waiting lane names wait in the same meeting; `first` is the warp's first
/// thread.
bool Device::is_complete(uint32_t first, uint32_t lane) {
    const Thread& caller = threads[first + lane];
    bool are_all_there = true;
    for (uint32_t other = 0; other < LANES; ++other) {
        if ((caller.mask >> other & 1) == 0) continue;
        if (first + other >= threads.size() || threads[first + other].state == State::done) {
            error = name_of(caller) + ": " + MEETING_NAMES[int(caller.what)] + " names lane " +
                    std::to_string(other) +
                    (first + other >= threads.size() ? ", which does not exist" : ", which has ended");
            return false;
        }
        const Thread& thread = threads[first + other];
        are_all_there = are_all_there && thread.state == State::waiting && thread.what == caller.what &&
                        thread.mask == caller.mask;
    }
    return are_all_there;
}

/// Where a shuffle of a lane reads.
uint64_t Device::shuffled(uint32_t first, uint32_t lane) {
    const Thread& thread = threads[first + lane];
    const uint32_t segment = lane & ~(thread.width - 1), last = segment + thread.width - 1;
    uint32_t source = lane;
    switch (thread.what) {
        case Meeting::shuffle:
            source = segment | (thread.argument & (thread.width - 1));
            break;
        case Meeting::shuffle_up:
            source = lane < segment + thread.argument ? lane : lane - thread.argument;
            break;
        case Meeting::shuffle_down:
            source = lane + thread.argument > last ? lane : lane + thread.argument;
            break;
        default:
            source = (lane ^ thread.argument) > last ? lane : lane ^ thread.argument;
    }
    if ((thread.mask >> source & 1) == 0) {
        error = name_of(thread) + ": " + MEETING_NAMES[int(thread.what)] + " reads lane " +
                std::to_string(source) + ", which takes no part";
        return 0;
    }
    return threads[first + source].value;
}

void Device::take_place(uint32_t first, const Thread& caller) {
    uint64_t ballot = 0, sum = 0, low = UINT64_MAX, high = 0, all = UINT64_MAX, some = 0, odd = 0;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
        if ((caller.mask >> lane & 1) == 0) continue;
        const uint64_t value = threads[first + lane].value;
        ballot |= (value & 1) << lane;
        sum = uint32_t(sum + value);
        low = value < low ? value : low;
        high = value > high ? value : high;
        all &= value;
        some |= value;
        odd ^= value;
    }
    const uint32_t mask = caller.mask;
    const Meeting what = caller.what;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        Thread& thread = threads[first + lane];
        switch (what) {
            case Meeting::ballot:
                thread.result = ballot;
                break;
            case Meeting::any:
            case Meeting::reduce_or:
                thread.result = some;
                break;
            case Meeting::all:
            case Meeting::reduce_and:
                thread.result = all;
                break;
            case Meeting::reduce_add:
                thread.result = sum;
                break;
            case Meeting::reduce_min:
                thread.result = low;
                break;
            case Meeting::reduce_max:
                thread.result = high;
                break;
            case Meeting::reduce_xor:
                thread.result = odd;
                break;
            case Meeting::sync_warp:
                thread.result = 0;
                break;
            default:
                thread.result = shuffled(first, lane);
        }
    }
    // Of these meetings only __syncwarp orders memory.
    if (what == Meeting::sync_warp) ++syncs[first / LANES];
    for (uint32_t lane = 0; lane < LANES; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        Thread& thread = threads[first + lane];
        thread.state = State::ready;
        if (what != Meeting::sync_warp) continue;
        thread.last_sync = syncs[first / LANES];
        thread.synced_with = mask;
    }
}

/// Lets the meetings of a warp take place whose lanes are all there.
bool Device::meet_warp(uint32_t warp) {
    bool has_moved = false;
    const uint32_t first = warp * LANES;
    for (uint32_t lane = 0; lane < LANES && first + lane < threads.size() && error.empty(); ++lane) {
        const Thread& thread = threads[first + lane];
        if (thread.state != State::waiting || is_of_block(thread.what) || !is_complete(first, lane))
            continue;
        take_place(first, thread);
        has_moved = true;
    }
    return has_moved;
}

// ---- Meetings of the block

bool Device::meet_block() {
    uint64_t count = 0;
    for (const Thread& thread : threads) {
        const bool is_here = thread.state == State::waiting && is_of_block(thread.what);
        if (!is_here || thread.what != threads[0].what || thread.line != threads[0].line) return false;
        count += thread.value;
    }
    for (Thread& thread : threads) {
        thread.result = thread.what == Meeting::barrier_count ? count
                        : thread.what == Meeting::barrier_and ? count == threads.size()
                                                              : count != 0;
        thread.state = State::ready;
    }
    ++barriers;
    return true;
}

std::string Device::name_of(const Thread& thread) const {
    return "thread " + std::to_string(&thread - threads.data()) + " of block " +
           std::to_string(block_index);
}

std::string Device::place_of(const Thread& thread) const {
    if (thread.state == State::done) return "has ended";
    std::string place = std::string("waits in ") + MEETING_NAMES[int(thread.what)];
    if (is_of_block(thread.what)) return place + " of line " + std::to_string(thread.line);
    char mask[16];
    std::snprintf(mask, sizeof mask, "%08x", thread.mask);
    return place + " with mask " + mask;
}

/// Says where a first thread is, and some that are elsewhere.
void Device::report_stuck() {
    constexpr size_t MAX_PLACES = 4;
    std::vector<std::string> places;
    error = "threads wait for each other for ever: ";
    for (const Thread& thread : threads) {
        const std::string place = place_of(thread);
        bool is_new = places.size() < MAX_PLACES;
        for (const std::string& known : places) is_new = is_new && known != place;
        if (!is_new) continue;
        error += (places.empty() ? "" : "; ") + name_of(thread) + " " + place;
        places.push_back(place);
    }
}

// ---- Settings of this CPU thread

uint64_t first_order() {
    const char* text = std::getenv("SYLVIE_EMULATED_ORDER");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}
thread_local uint64_t order = first_order();
thread_local bool watches_races = false;

bool is_possible(const uint32_t grid[3], const uint32_t block[3]) {
    uint64_t n_blocks = 1, n_threads = 1;
    for (int i = 0; i < 3; ++i) {
        if (grid[i] == 0 || block[i] == 0 || block[i] > MAX_THREADS) return false;
        n_blocks *= grid[i];
        n_threads *= block[i];
        if (n_blocks > INT32_MAX || n_threads > MAX_THREADS) return false;
    }
    return true;
}

int write_error(const std::string& text, char* error, size_t error_bytes) {
    if (error != nullptr && error_bytes > 0) std::snprintf(error, error_bytes, "%s", text.c_str());
    return 1;
}

}  // namespace

uint64_t meet(Meeting what, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width, int line) {
    return device.meet(what, mask, value, argument, width, line);
}
void* shared(const char* name, int line, size_t bytes) { return device.shared(name, line, bytes); }
void fail(const std::string& message) { device.fail(message); }
bool toucher(Toucher& who) { return device.toucher(who); }

}  // namespace sylvie_emulated

using sylvie_emulated::Index;
using sylvie_emulated::sylvie_emulated_kernels;

extern "C" const sylvie_emulated_kernel* sylvie_emulated_find(const char* entry) {
    for (const sylvie_emulated_kernel* kernel = sylvie_emulated_kernels; kernel->name != nullptr; ++kernel)
        if (std::strcmp(kernel->name, entry) == 0) return kernel;
    return nullptr;
}
extern "C" size_t sylvie_emulated_parameters(const sylvie_emulated_kernel* kernel, const size_t** sizes) {
    if (sizes != nullptr) *sizes = kernel->sizes;
    return kernel->n_parameters;
}
extern "C" void sylvie_emulated_set_order(uint64_t order) { sylvie_emulated::order = order; }
extern "C" void sylvie_emulated_watch_races(int watches) { sylvie_emulated::watches_races = watches != 0; }

extern "C" int sylvie_emulated_launch(const sylvie_emulated_kernel* kernel, const uint32_t grid[3],
                                      const uint32_t block[3], size_t shared_bytes, void** arguments,
                                      char* error, size_t error_bytes) {
    using namespace sylvie_emulated;
    if (!is_possible(grid, block))
        return write_error(std::string(kernel->name) + ": an impossible grid", error, error_bytes);
    if (shared_bytes != 0)
        return write_error(std::string(kernel->name) + ": takes no dynamic shared memory", error,
                           error_bytes);
    if (device.is_running()) return write_error("a launch within a launch", error, error_bytes);
    if (watches_races) begin_watch();
    const std::string found = device.launch(*kernel, Index{grid[0], grid[1], grid[2]},
                                            Index{block[0], block[1], block[2]}, arguments, order);
    end_watch();
    return found.empty() ? 0 : write_error(found, error, error_bytes);
}
