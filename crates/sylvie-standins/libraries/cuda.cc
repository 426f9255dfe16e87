// A libcuda whose kernels run on the CPU. Operations run when they are submitted, but the order that the
// program asked for is kept in vector clocks, and whatever touches memory without an event or a
// synchronisation behind the operation before is reported, although it went well this time.
//
// Copies to pinned memory arrive when the host has waited for them, and not before; copies from it are held
// against what the host does with it meanwhile.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "standin.h"
#include "sylvie_emulated.h"

namespace {
typedef int Status;
typedef uint64_t Address;
enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, UNSUPPORTED_PTX = 222, INVALID_HANDLE = 400, NOT_FOUND = 500,
    NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719
};
typedef std::map<int, uint64_t> Clock;   // stream -> operations known to be over
struct Mark { int stream; uint64_t tick; };
struct Operation { bool over = false, failed = false; };
typedef std::shared_ptr<Operation> Pending;

struct Allocation {
    size_t bytes; int device;
    bool written = false; Mark writer{0, 0};
    std::vector<Mark> readers;
};
struct Stream {
    int number, device;
    Clock clock;
    std::vector<Pending> pending;
    std::mutex order;
};
struct Event {
    int device;
    Clock clock; std::vector<Pending> pending;
    bool recorded = false;
    std::chrono::steady_clock::time_point when;
};
struct Context { int device; };
struct Module { std::string ptx; int device; };
struct Function { const sylvie_emulated_kernel *kernel; std::string name; int device; };
struct HostCopy { int stream; uint64_t tick; char *host; std::vector<char> data; bool to_host; };

std::mutex g_mutex;
std::condition_variable g_over;
std::map<Address, Allocation> g_memory;
std::map<char *, size_t> g_pinned;
std::vector<HostCopy> g_copies;
std::set<Stream *> g_streams;
std::set<Event *> g_events;
std::deque<std::string> g_reports;
Clock g_host;                            // what the host has waited for; its threads are taken as one
int g_devices = 4, g_next_stream = 1;
bool g_forget_waits = false;
// 0: takes all PTX; 1: only what was compiled here, as an old driver; 2: none. A process of its own is told by its surroundings.
int refusal_by_environment() { const char *text = std::getenv("SYLVIE_STANDIN_REFUSES_PTX"); return text ? std::atoi(text) : 0; }
int g_refuse_ptx = refusal_by_environment();
size_t g_lost_bytes = 0;
int64_t g_patience_ms = 20000;
Context g_contexts[16] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}};
thread_local Context *t_context = nullptr;
const char *const COMPILED_HERE = "// compiled by the stand-in";

void report(const std::string &text) {
    std::fprintf(stderr, "stand-in: %s\n", text.c_str());
    g_reports.push_back(text);
}
void join(Clock &into, const Clock &other) {
    for (auto &entry : other) { auto &tick = into[entry.first]; tick = std::max(tick, entry.second); }
}
bool knows(const Clock &clock, Mark mark) {
    auto found = clock.find(mark.stream);
    return found != clock.end() && found->second >= mark.tick;
}
Allocation *allocation_of(Address address, size_t bytes, Address *start = nullptr) {
    auto next = g_memory.upper_bound(address);
    if (next == g_memory.begin()) return nullptr;
    --next;
    if (address + bytes > next->first + next->second.bytes || address > next->first + next->second.bytes) return nullptr;
    if (start) *start = next->first;
    return &next->second;
}
// A new operation on a stream, behind all that the host has waited for.
uint64_t advance(Stream &stream) {
    join(stream.clock, g_host);
    return ++stream.clock[stream.number];
}
bool touch(Stream &stream, Allocation &memory, bool writes, const char *operation) {
    const Mark now{stream.number, stream.clock[stream.number]};
    std::string unordered;
    if (memory.written && !knows(stream.clock, memory.writer)) unordered = "a write of stream " + std::to_string(memory.writer.stream);
    if (writes) for (auto &reader : memory.readers)
        if (!knows(stream.clock, reader)) unordered = "a read of stream " + std::to_string(reader.stream);
    if (!unordered.empty())
        report(std::string(operation) + " on stream " + std::to_string(stream.number) + (writes ? " writes" : " reads") +
               " memory that " + unordered + " may still be using: no event or synchronisation lies between");
    if (writes) { memory.written = true; memory.writer = now; memory.readers.clear(); }
    else {
        auto same = [&](const Mark &reader) { return reader.stream == now.stream; };
        memory.readers.erase(std::remove_if(memory.readers.begin(), memory.readers.end(), same), memory.readers.end());
        memory.readers.push_back(now);
    }
    return unordered.empty();
}
bool all_over(const std::vector<Pending> &pending) {
    return std::all_of(pending.begin(), pending.end(), [](const Pending &p) { return p->over; });
}
bool any_failed(const std::vector<Pending> &pending) {
    return std::any_of(pending.begin(), pending.end(), [](const Pending &p) { return p->failed; });
}
Status wait_over(std::unique_lock<std::mutex> &lock, const std::vector<Pending> &waited, const char *what) {
    const std::vector<Pending> pending = waited;
    if (!g_over.wait_for(lock, std::chrono::milliseconds(g_patience_ms), [&] { return all_over(pending); })) {
        report(std::string(what) + ": waited in vain for a peer");
        return LAUNCH_FAILED;
    }
    return any_failed(pending) ? LAUNCH_FAILED : OK;
}
// The host has waited: copies that it may look at arrive, and memory that it may change is looked at.
Status host_knows(const Clock &clock) {
    join(g_host, clock);
    Status status = OK;
    std::vector<HostCopy> later;
    for (auto &copy : g_copies) {
        if (!knows(g_host, Mark{copy.stream, copy.tick})) { later.push_back(std::move(copy)); continue; }
        if (copy.to_host) std::memcpy(copy.host, copy.data.data(), copy.data.size());
        else if (std::memcmp(copy.host, copy.data.data(), copy.data.size())) {
            report("pinned memory changed while it was copied to the device"); status = LAUNCH_FAILED;
        }
    }
    g_copies.swap(later);
    return status;
}
bool is_pinned(const void *host, size_t bytes) {
    auto next = g_pinned.upper_bound((char *)host);
    if (next == g_pinned.begin()) return false;
    --next;
    return (char *)host + bytes <= next->first + next->second;
}
Stream *stream_of(void *handle) {
    auto *stream = (Stream *)handle;
    return g_streams.count(stream) ? stream : nullptr;
}
Status check_context(Stream *stream) {
    if (!stream) { report("a stream that does not exist, or not any more"); return INVALID_HANDLE; }
    if (!t_context) { report("no context is current"); return INVALID_CONTEXT; }
    if (t_context->device != stream->device) { report("a stream of another device than the current one"); return INVALID_HANDLE; }
    return OK;
}
// Submits a copy or fill: waits for what is pending, checks the device's sides, does it.
template <class F> Status operate(void *handle, const char *what, Address to, Address from, size_t bytes, F act) {
    Stream *stream;
    {
        std::lock_guard<std::mutex> lock(g_mutex);
        stream = stream_of(handle);
        if (Status status = check_context(stream)) return status;
    }
    std::lock_guard<std::mutex> order(stream->order);
    std::unique_lock<std::mutex> lock(g_mutex);
    if (Status status = wait_over(lock, stream->pending, what)) return status;
    const uint64_t tick = advance(*stream);
    bool good = true;
    for (auto side : {std::make_pair(from, false), std::make_pair(to, true)}) {
        if (!side.first) continue;
        Allocation *memory = allocation_of(side.first, bytes);
        if (!memory) { report(std::string(what) + ": " + std::to_string(bytes) + " bytes that no allocation holds"); return INVALID_VALUE; }
        if (memory->device != stream->device) { report(std::string(what) + ": memory of another device"); return INVALID_VALUE; }
        good &= touch(*stream, *memory, side.second, what);
    }
    if (!good) return LAUNCH_FAILED;
    act(*stream, tick);
    return OK;
}
uint64_t digest(const char *bytes, size_t n) {
    uint64_t sum = 0xcbf29ce484222325ull;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) { uint64_t word; std::memcpy(&word, bytes + i, 8); sum = (sum ^ word) * 0x100000001b3ull; sum ^= sum >> 29; }
    for (; i < n; ++i) sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
    return sum;
}
}  // namespace

extern "C" {
void standin_set_devices(int n) { std::lock_guard<std::mutex> lock(g_mutex); g_devices = n; }
void standin_refuse_ptx(int refuse) { std::lock_guard<std::mutex> lock(g_mutex); g_refuse_ptx = refuse; }
void standin_set_patience_ms(int64_t ms) { std::lock_guard<std::mutex> lock(g_mutex); g_patience_ms = ms; }
int64_t standin_patience_ms() { std::lock_guard<std::mutex> lock(g_mutex); return g_patience_ms; }
void standin_forget_waits(int forget) { std::lock_guard<std::mutex> lock(g_mutex); g_forget_waits = forget; }
void standin_lose_sends(int bytes) { std::lock_guard<std::mutex> lock(g_mutex); g_lost_bytes = bytes; }
size_t standin_lost_bytes() { std::lock_guard<std::mutex> lock(g_mutex); return g_lost_bytes; }
int standin_take_report(char *text, size_t n) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (g_reports.empty()) return 0;
    std::snprintf(text, n, "%s", g_reports.front().c_str());
    g_reports.pop_front();
    return 1;
}
void standin_report(const char *text) { std::lock_guard<std::mutex> lock(g_mutex); report(text); }
int standin_touch(void *handle, const void *address, size_t bytes, int writes, const char *what) {
    std::lock_guard<std::mutex> lock(g_mutex);
    Stream *stream = stream_of(handle);
    if (check_context(stream)) return 1;
    Allocation *memory = allocation_of((Address)address, bytes);
    if (!memory) { report(std::string(what) + ": memory that no allocation holds"); return 1; }
    if (memory->device != stream->device) { report(std::string(what) + ": memory of another device"); return 1; }
    advance(*stream);
    return !touch(*stream, *memory, writes, what);
}
void *standin_begin(void *handle) {
    std::lock_guard<std::mutex> lock(g_mutex);
    Stream *stream = stream_of(handle);
    if (check_context(stream)) return nullptr;
    advance(*stream);
    auto operation = std::make_shared<Operation>();
    stream->pending.push_back(operation);
    return new Pending(operation);
}
void standin_end(void *handle, int failed) {
    auto *operation = (Pending *)handle;
    std::lock_guard<std::mutex> lock(g_mutex);
    (*operation)->over = true; (*operation)->failed = failed;
    delete operation;
    g_over.notify_all();
}
int standin_current_device() { return t_context ? t_context->device : -1; }
int standin_drain(void *handle) {
    std::unique_lock<std::mutex> lock(g_mutex);
    Stream *stream = stream_of(handle);
    if (Status status = check_context(stream)) return status;
    return wait_over(lock, stream->pending, "a library");
}

Status cuInit(unsigned) { std::lock_guard<std::mutex> lock(g_mutex); return g_devices ? OK : NO_DEVICE; }
Status cuDriverGetVersion(int *version) { *version = 12020; return OK; }
Status cuDeviceGetCount(int *n) { std::lock_guard<std::mutex> lock(g_mutex); *n = g_devices; return OK; }
Status cuDeviceGet(int *device, int number) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (number < 0 || number >= g_devices) return INVALID_DEVICE;
    *device = number; return OK;
}
Status cuDeviceGetName(char *name, int n, int) { std::snprintf(name, n, "emulated device"); return OK; }
Status cuDeviceTotalMem_v2(size_t *n, int) { *n = size_t(8) << 30; return OK; }
Status cuDeviceGetAttribute(int *value, int attribute, int) {
    // 75, 76: compute capability; 16: processors; 10: warp.
    *value = attribute == 75 ? 8 : attribute == 76 ? 0 : attribute == 16 ? 4 : attribute == 10 ? 32 : 0;
    return OK;
}
Status cuDevicePrimaryCtxRetain(void **context, int device) { *context = &g_contexts[device]; return OK; }
Status cuDevicePrimaryCtxRelease_v2(int) { return OK; }
Status cuCtxGetCurrent(void **context) { *context = t_context; return OK; }
Status cuCtxSetCurrent(void *context) { t_context = (Context *)context; return OK; }
Status cuCtxSynchronize() {
    std::unique_lock<std::mutex> lock(g_mutex);
    if (!t_context) return INVALID_CONTEXT;
    const int device = t_context->device;
    std::vector<Pending> pending; Clock clock;
    for (auto *stream : g_streams) if (stream->device == device) {
        pending.insert(pending.end(), stream->pending.begin(), stream->pending.end());
        join(clock, stream->clock);
    }
    if (Status status = wait_over(lock, pending, "cuCtxSynchronize")) return status;
    return host_knows(clock);
}
Status cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = size_t(8) << 30; return OK; }

Status cuStreamCreate(void **handle, unsigned) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!t_context) return INVALID_CONTEXT;
    auto *stream = new Stream;
    stream->number = g_next_stream++; stream->device = t_context->device;
    g_streams.insert(stream);
    *handle = stream; return OK;
}
Status cuStreamDestroy_v2(void *handle) {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto *stream = stream_of(handle);
    if (!stream) { report("a stream destroyed twice"); return INVALID_HANDLE; }
    g_streams.erase(stream);   // not freed: its address must not be another's
    return OK;
}
Status cuStreamSynchronize(void *handle) {
    std::unique_lock<std::mutex> lock(g_mutex);
    auto *stream = stream_of(handle);
    if (!stream) return INVALID_HANDLE;
    if (Status status = wait_over(lock, stream->pending, "cuStreamSynchronize")) return status;
    return host_knows(stream->clock);
}
Status cuStreamWaitEvent(void *handle, void *event_handle, unsigned) {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto *stream = stream_of(handle); auto *event = (Event *)event_handle;
    if (!stream || !g_events.count(event)) return INVALID_HANDLE;
    if (g_forget_waits) return OK;
    join(stream->clock, event->clock);
    stream->pending.insert(stream->pending.end(), event->pending.begin(), event->pending.end());
    return OK;
}
Status cuEventCreate(void **handle, unsigned) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!t_context) return INVALID_CONTEXT;
    auto *event = new Event; event->device = t_context->device;
    g_events.insert(event);
    *handle = event; return OK;
}
Status cuEventDestroy_v2(void *handle) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!g_events.erase((Event *)handle)) { report("an event destroyed twice"); return INVALID_HANDLE; }
    return OK;
}
Status cuEventRecord(void *event_handle, void *handle) {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto *stream = stream_of(handle); auto *event = (Event *)event_handle;
    if (!stream || !g_events.count(event)) return INVALID_HANDLE;
    if (event->device != stream->device) { report("an event of another device"); return INVALID_HANDLE; }
    auto over = [](const Pending &p) { return p->over && !p->failed; };
    stream->pending.erase(std::remove_if(stream->pending.begin(), stream->pending.end(), over), stream->pending.end());
    advance(*stream);
    event->clock = stream->clock; event->pending = stream->pending;
    event->recorded = true; event->when = std::chrono::steady_clock::now();
    return OK;
}
Status cuEventQuery(void *handle) {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto *event = (Event *)handle;
    if (!g_events.count(event)) return INVALID_HANDLE;
    if (!all_over(event->pending)) return NOT_READY;
    if (any_failed(event->pending)) return LAUNCH_FAILED;
    return host_knows(event->clock);
}
Status cuEventSynchronize(void *handle) {
    std::unique_lock<std::mutex> lock(g_mutex);
    auto *event = (Event *)handle;
    if (!g_events.count(event)) return INVALID_HANDLE;
    if (Status status = wait_over(lock, event->pending, "cuEventSynchronize")) return status;
    return host_knows(event->clock);
}
Status cuEventElapsedTime_v2(float *ms, void *begin, void *end) {
    std::lock_guard<std::mutex> lock(g_mutex);
    *ms = std::chrono::duration<float, std::milli>(((Event *)end)->when - ((Event *)begin)->when).count();
    return OK;
}
Status cuEventElapsedTime(float *ms, void *begin, void *end) { return cuEventElapsedTime_v2(ms, begin, end); }

Status cuMemAlloc_v2(Address *address, size_t bytes) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!t_context) return INVALID_CONTEXT;
    if (!bytes) return INVALID_VALUE;
    if (bytes > (size_t(4) << 30)) return OUT_OF_MEMORY;
    void *memory = sylvie_emulated_alloc(bytes);
    if (!memory) return OUT_OF_MEMORY;
    Allocation allocation; allocation.bytes = bytes; allocation.device = t_context->device;
    g_memory[(Address)memory] = allocation;
    *address = (Address)memory; return OK;
}
Status cuMemFree_v2(Address address) {
    std::unique_lock<std::mutex> lock(g_mutex);
    auto found = g_memory.find(address);
    if (found == g_memory.end()) { report("memory freed twice, or never allocated"); return INVALID_VALUE; }
    // The driver waits for whoever uses it.
    std::vector<Pending> pending; Clock clock;
    auto users = found->second.readers;
    if (found->second.written) users.push_back(found->second.writer);
    for (auto *stream : g_streams)
        for (auto &user : users) if (user.stream == stream->number) {
            pending.insert(pending.end(), stream->pending.begin(), stream->pending.end());
            join(clock, stream->clock);
        }
    if (Status status = wait_over(lock, pending, "cuMemFree")) return status;
    host_knows(clock);
    g_memory.erase(address);
    sylvie_emulated_free((void *)address);
    return OK;
}
Status cuMemHostAlloc(void **host, size_t bytes, unsigned) {
    char *memory = (char *)std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) return OUT_OF_MEMORY;
    std::lock_guard<std::mutex> lock(g_mutex);
    g_pinned[memory] = bytes;
    *host = memory; return OK;
}
Status cuMemFreeHost(void *host) {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto found = g_pinned.find((char *)host);
    if (found == g_pinned.end()) { report("pinned memory freed twice, or never allocated"); return INVALID_VALUE; }
    char *begin = found->first, *end = begin + found->second;
    auto here = [&](const HostCopy &copy) { return copy.host >= begin && copy.host < end; };
    g_copies.erase(std::remove_if(g_copies.begin(), g_copies.end(), here), g_copies.end());
    g_pinned.erase(found);
    std::free(host); return OK;
}
Status cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *handle) {
    return operate(handle, "cuMemcpyHtoDAsync", to, 0, bytes, [&](Stream &stream, uint64_t tick) {
        std::memcpy((void *)to, from, bytes);
        if (is_pinned(from, bytes))
            g_copies.push_back({stream.number, tick, (char *)from, std::vector<char>((char *)from, (char *)from + bytes), false});
    });
}
Status cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *handle) {
    return operate(handle, "cuMemcpyDtoHAsync", 0, from, bytes, [&](Stream &stream, uint64_t tick) {
        if (!is_pinned(to, bytes)) { std::memcpy(to, (void *)from, bytes); return; }
        g_copies.push_back({stream.number, tick, (char *)to, std::vector<char>((char *)from, (char *)from + bytes), true});
        std::memset(to, 0xCD, bytes);
    });
}
Status cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *handle) {
    return operate(handle, "cuMemcpyDtoDAsync", to, from, bytes, [&](Stream &, uint64_t) { std::memmove((void *)to, (void *)from, bytes); });
}
Status cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void *handle) {
    return operate(handle, "cuMemsetD8Async", to, 0, bytes, [&](Stream &, uint64_t) { std::memset((void *)to, value, bytes); });
}

Status cuModuleLoadData(void **handle, const void *image) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (!t_context) return INVALID_CONTEXT;
    const std::string ptx((const char *)image);
    const bool compiled_here = ptx.rfind(COMPILED_HERE, 0) == 0;
    if (!compiled_here && ptx.find(".version") == std::string::npos) { report("a module that is no PTX"); return INVALID_IMAGE; }
    if (g_refuse_ptx > (compiled_here ? 1 : 0)) return UNSUPPORTED_PTX;
    *handle = new Module{ptx, t_context->device};
    return OK;
}
Status cuModuleUnload(void *handle) { delete (Module *)handle; return OK; }
Status cuModuleGetFunction(void **handle, void *module_handle, const char *name) {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto *module = (Module *)module_handle;
    const std::string entry = std::string(".entry ") + name;
    size_t at = module->ptx.find(entry);
    while (at != std::string::npos && (std::isalnum((unsigned char)module->ptx[at + entry.size()]) || module->ptx[at + entry.size()] == '_'))
        at = module->ptx.find(entry, at + 1);
    const sylvie_emulated_kernel *kernel = sylvie_emulated_find(name);
    // Names may be made by macros: the stand-in of NVRTC does not know those of what it compiled.
    const bool is_named = at != std::string::npos || module->ptx.rfind(COMPILED_HERE, 0) == 0;
    if (!is_named || !kernel) return NOT_FOUND;
    *handle = new Function{kernel, name, module->device};   // as long as the process
    return OK;
}
Status cuFuncGetAttribute(int *value, int, void *) { *value = 0; return OK; }
Status cuFuncSetAttribute(void *, int, int) { return OK; }

Status cuLaunchKernel(void *function_handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void *handle, void **arguments, void **) {
    auto *function = (Function *)function_handle;
    Stream *stream;
    std::vector<std::pair<Address, uint64_t>> before;
    {
        std::lock_guard<std::mutex> lock(g_mutex);
        stream = stream_of(handle);
        if (Status status = check_context(stream)) return status;
        if (function->device != stream->device) { report(function->name + ": a kernel of another device"); return INVALID_HANDLE; }
    }
    std::lock_guard<std::mutex> order(stream->order);
    {
        std::unique_lock<std::mutex> lock(g_mutex);
        if (Status status = wait_over(lock, stream->pending, function->name.c_str())) return status;
        advance(*stream);
        const size_t *sizes = nullptr;
        const size_t n = sylvie_emulated_parameters(function->kernel, &sizes);
        for (size_t i = 0; i < n; ++i) {
            if (sizes[i] != 8) continue;
            Address value, start; std::memcpy(&value, arguments[i], 8);
            // A number of 64 bits is no address of this process, and an address is no number that large.
            if (value < (1ull << 32)) continue;
            Allocation *memory = allocation_of(value, 0, &start);
            if (!memory) { report(function->name + ": argument " + std::to_string(i) + " is memory that no allocation holds"); return ILLEGAL_ADDRESS; }
            if (memory->device != stream->device) { report(function->name + ": memory of another device"); return ILLEGAL_ADDRESS; }
            before.push_back({start, digest((const char *)start, memory->bytes)});
        }
    }
    const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    char error[512] = "";
    const int failed = sylvie_emulated_launch(function->kernel, grid, block, shared_bytes, arguments, error, sizeof error);
    std::lock_guard<std::mutex> lock(g_mutex);
    if (failed) { report(error); return LAUNCH_FAILED; }
    bool good = true;
    for (auto &entry : before) {
        auto found = g_memory.find(entry.first);
        if (found == g_memory.end()) { report(function->name + ": memory freed under it"); return ILLEGAL_ADDRESS; }
        const bool written = digest((const char *)entry.first, found->second.bytes) != entry.second;
        good &= touch(*stream, found->second, written, function->name.c_str());
    }
    return good ? OK : LAUNCH_FAILED;
}
Status cuGetErrorName(Status status, const char **text) {
    switch (status) {
        case OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
        case INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
        case UNSUPPORTED_PTX: *text = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; break;
        case NOT_FOUND: *text = "CUDA_ERROR_NOT_FOUND"; break;
        case LAUNCH_FAILED: *text = "CUDA_ERROR_LAUNCH_FAILED"; break;
        case ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
        default: *text = "CUDA_ERROR";
    }
    return OK;
}
Status cuGetErrorString(Status, const char **text) { *text = "the stand-in's report says more"; return OK; }
}
