//! Memory whose bounds are watched, and who touched what.
//!
//! Kernels are compiled with `-fsanitize=thread`, which calls a function of this file before each access.
//! (It is compiled with, but not linked with: of that sanitizer's library nothing is here.) Device memory
//! comes from one large reservation with a byte beside every eight of its bytes that says how many of them
//! are in an allocation.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

#include "runtime.h"

namespace sylvie_emulated {
namespace {

constexpr size_t UNIT = 256;  // Of addresses and sizes.
constexpr size_t GAP =
    1 << 20;  // Between allocations: addresses without memory, so that what runs far is caught too.
constexpr size_t GRANULE = 8;     // Bytes that one byte of the map stands for.
constexpr size_t PAGE = 1 << 12;  // Bytes whose touches lie together.

char* map_memory(size_t bytes) {
    void* mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

/// The reservation. Only pages that are touched take memory.
struct Arena {
    uintptr_t base = 0;
    size_t bytes = 0;
    unsigned char* valid = nullptr;
    size_t n_used = GAP;
    std::mutex mutex;
    /// Live allocations by address, with their size as asked for.
    std::map<uintptr_t, size_t> live;
    /// Freed memory by its size in units.
    std::unordered_map<size_t, std::vector<uintptr_t>> free;

    Arena() {
        for (size_t size = size_t(1) << 38; size >= size_t(1) << 30 && bytes == 0; size /= 2) {
            char* memory = map_memory(size);
            char* map = memory == nullptr ? nullptr : map_memory(size / GRANULE);
            if (map != nullptr) {
                base = reinterpret_cast<uintptr_t>(memory);
                bytes = size;
                valid = reinterpret_cast<unsigned char*>(map);
            } else if (memory != nullptr) {
                munmap(memory, size);
            }
        }
    }

    static size_t rounded(size_t size) { return (size + UNIT - 1) / UNIT * UNIT; }

    void mark(uintptr_t address, size_t size, bool is_valid) {
        unsigned char* map = valid + (address - base) / GRANULE;
        std::memset(map, is_valid ? int(GRANULE) : 0, size / GRANULE);
        if (size % GRANULE != 0)
            map[size / GRANULE] = is_valid ? static_cast<unsigned char>(size % GRANULE) : 0;
    }

    void* take(size_t size) {
        if (size == 0 || size > bytes) return nullptr;
        std::lock_guard<std::mutex> lock(mutex);
        uintptr_t address = 0;
        std::vector<uintptr_t>& freed = free[rounded(size)];
        if (!freed.empty()) {
            address = freed.back();
            freed.pop_back();
        } else if (n_used + rounded(size) + GAP <= bytes) {
            address = base + n_used;
            n_used += rounded(size) + GAP;
        } else {
            return nullptr;
        }
        live[address] = size;
        mark(address, size, true);
        return reinterpret_cast<void*>(address);
    }

    bool give_back(uintptr_t address) {
        std::lock_guard<std::mutex> lock(mutex);
        auto found = live.find(address);
        if (found == live.end()) return false;
        mark(address, found->second, false);
        free[rounded(found->second)].push_back(address);
        live.erase(found);
        return true;
    }

    bool holds(uintptr_t address, size_t size) {
        std::lock_guard<std::mutex> lock(mutex);
        auto next = live.upper_bound(address);
        if (next == live.begin()) return false;
        --next;
        return address - next->first <= next->second && size <= next->second - (address - next->first);
    }

    bool contains(uintptr_t address) const { return address - base < bytes; }

    /// Whether all these bytes are in an allocation; no lock, for nobody frees what a launch works on.
    bool is_valid(uintptr_t address, size_t size) const {
        for (uintptr_t at = address; at < address + size;) {
            const uintptr_t granule = (at - base) / GRANULE, end = base + (granule + 1) * GRANULE;
            const size_t needed =
                (address + size < end ? address + size : end) - (base + granule * GRANULE);
            if (!contains(at) || valid[granule] < needed) return false;
            at = end;
        }
        return true;
    }

    std::string describe(uintptr_t address) {
        std::lock_guard<std::mutex> lock(mutex);
        auto next = live.upper_bound(address);
        if (next == live.begin()) return "before every allocation";
        --next;
        return "at byte " + std::to_string(address - next->first) + " of an allocation of " +
               std::to_string(next->second);
    }
};

Arena& arena() {
    static Arena* one = new Arena;  // Never freed: threads may end after it.
    return *one;
}

// ---- Races

/// The last write and the last two reads, by two threads, of a byte.
struct Touches {
    Toucher writer, readers[2];
    bool is_written = false, is_read[2] = {false, false};
};

struct Watch {
    std::unordered_map<uintptr_t, std::unique_ptr<Touches[]>> pages;
    uintptr_t last_page = 0;
    Touches* last = nullptr;

    Touches& of(uintptr_t address) {
        if (last == nullptr || address / PAGE != last_page) {
            std::unique_ptr<Touches[]>& page = pages[address / PAGE];
            if (page == nullptr) page.reset(new Touches[PAGE]);
            last_page = address / PAGE;
            last = page.get();
        }
        return last[address % PAGE];
    }
};
thread_local std::unique_ptr<Watch> watch;

bool is_same(const Toucher& a, const Toucher& b) { return a.block == b.block && a.thread == b.thread; }

/// Whether a barrier of both lies between what `before` did and what `now` does.
bool is_ordered(const Toucher& before, const Toucher& now) {
    if (is_same(before, now)) return true;
    if (before.block != now.block) return false;
    if (before.barriers < now.barriers) return true;
    const bool is_same_warp = before.thread / 32 == now.thread / 32;
    return is_same_warp && before.syncs < now.last_sync && (now.synced_with >> before.thread % 32 & 1) != 0;
}

std::string name_of(const Toucher& who) {
    return "thread " + std::to_string(who.thread) + " of block " + std::to_string(who.block);
}

void watch_byte(uintptr_t address, bool writes, const Toucher& now) {
    Touches& touches = watch->of(address);
    const Toucher* other = nullptr;
    if (touches.is_written && !is_ordered(touches.writer, now)) other = &touches.writer;
    for (int i = 0; writes && i < 2; ++i)
        if (touches.is_read[i] && !is_ordered(touches.readers[i], now)) other = &touches.readers[i];
    if (other != nullptr)
        fail(std::string("a race: ") + (writes ? "writes" : "reads") + " what " + name_of(*other) +
             " touched without a barrier between, " + arena().describe(address));
    if (writes) {
        touches.writer = now;
        touches.is_written = true;
        return;
    }
    if (touches.is_read[0] && !is_same(touches.readers[0], now)) {
        touches.readers[1] = touches.readers[0];
        touches.is_read[1] = true;
    }
    touches.readers[0] = now;
    touches.is_read[0] = true;
}

}  // namespace

void begin_watch() { watch.reset(new Watch); }
void end_watch() { watch.reset(); }

void forget(const void* memory, size_t bytes) {
    if (watch == nullptr) return;
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
    for (size_t i = 0; i < bytes; ++i) watch->of(address + i) = Touches();
}

void touch(uintptr_t address, size_t bytes, Access access) {
    Arena& memory = arena();
    if (address < PAGE) fail("touches address " + std::to_string(address) + ", as of a null pointer");
    if (!memory.contains(address)) return;
    if (!memory.is_valid(address, bytes))
        fail(std::string(access == Access::read ? "reads " : "writes ") + std::to_string(bytes) +
             " bytes " + memory.describe(address));
    Toucher now;
    if (watch == nullptr || access == Access::atomic || !toucher(now)) return;
    for (size_t i = 0; i < bytes; ++i) watch_byte(address + i, access == Access::write, now);
}

}  // namespace sylvie_emulated

// ---- What the compiler calls, by its names

using sylvie_emulated::Access;
using sylvie_emulated::touch;

#define SYLVIE_EMULATED_HOOKS(bytes)                                                                 \
    extern "C" void __tsan_read##bytes(uintptr_t address) { touch(address, bytes, Access::read); }   \
    extern "C" void __tsan_write##bytes(uintptr_t address) { touch(address, bytes, Access::write); } \
    extern "C" void __tsan_unaligned_read##bytes(uintptr_t address) {                                \
        touch(address, bytes, Access::read);                                                         \
    }                                                                                                \
    extern "C" void __tsan_unaligned_write##bytes(uintptr_t address) {                               \
        touch(address, bytes, Access::write);                                                        \
    }
SYLVIE_EMULATED_HOOKS(1)
SYLVIE_EMULATED_HOOKS(2)
SYLVIE_EMULATED_HOOKS(4)
SYLVIE_EMULATED_HOOKS(8)
SYLVIE_EMULATED_HOOKS(16)
extern "C" void __tsan_read_range(uintptr_t address, size_t bytes) { touch(address, bytes, Access::read); }
extern "C" void __tsan_write_range(uintptr_t address, size_t bytes) {
    touch(address, bytes, Access::write);
}
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    touch(reinterpret_cast<uintptr_t>(from), bytes, Access::read);
    touch(reinterpret_cast<uintptr_t>(to), bytes, Access::write);
    return std::memcpy(to, from, bytes);
}
extern "C" void* __tsan_memset(void* to, int value, size_t bytes) {
    touch(reinterpret_cast<uintptr_t>(to), bytes, Access::write);
    return std::memset(to, value, bytes);
}
// What the sanitizer has besides: its beginning, and where functions begin and end.
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}

unsigned long long sylvie_emulated::atomic_min(unsigned long long* place, unsigned long long value) {
    touch(reinterpret_cast<uintptr_t>(place), sizeof *place, Access::atomic);
    unsigned long long found = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (value < found &&
           !__atomic_compare_exchange_n(place, &found, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return found;
}

extern "C" void* sylvie_emulated_alloc(size_t bytes) {
    void* memory = sylvie_emulated::arena().take(bytes);
    if (memory != nullptr) std::memset(memory, 0xff, bytes);
    return memory;
}
extern "C" int sylvie_emulated_free(void* memory) {
    return sylvie_emulated::arena().give_back(reinterpret_cast<uintptr_t>(memory)) ? 0 : 1;
}
extern "C" int sylvie_emulated_holds(const void* memory, size_t bytes) {
    return sylvie_emulated::arena().holds(reinterpret_cast<uintptr_t>(memory), bytes) ? 1 : 0;
}
