// NCCL for ranks that are threads of one process. A group is posted when it ends and moves when its other half is
// there; the stream is busy until then, as on a device. What NCCL would answer with a hang or with other
// people's bytes - halves of different sizes, a half that never comes, two ranks on one device - is reported.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "standin.h"

namespace {
typedef int Result;
enum { OK = 0, INTERNAL = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE = 6 };
struct Half { const void *memory; size_t bytes; void *operation; struct Comm *comm; };
struct World {
    int n = 0, joined = 0;
    bool refused = false;
    std::map<int, int> devices;                                  // rank -> device
    std::map<std::pair<int, int>, std::deque<Half>> sends, receives;   // (from, to)
    std::deque<Half> stuck;
};
struct Comm { std::shared_ptr<World> world; int rank = 0; Result error = OK; bool aborted = false; };
struct Call { bool sends; const void *memory; size_t bytes; int peer; Comm *comm; void *stream; };
struct Id { char internal[128]; };

std::mutex g_mutex;
std::condition_variable g_joined;
std::map<uint64_t, std::weak_ptr<World>> g_worlds;
uint64_t g_next = 1;
thread_local int t_depth = 0;
thread_local std::vector<Call> t_calls;

size_t width(int type) {
    static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < 10 ? widths[type] : 0;
}
// Moves what has both its halves.
void match(World &world, std::pair<int, int> pair) {
    auto &sends = world.sends[pair], &receives = world.receives[pair];
    while (!sends.empty() && !receives.empty()) {
        Half from = sends.front(), to = receives.front();
        sends.pop_front(); receives.pop_front();
        const bool fits = from.bytes == to.bytes;
        if (fits) std::memcpy(const_cast<void *>(to.memory), from.memory, to.bytes);
        else {
            // NCCL would wait, or worse: it is over when somebody gives up.
            standin_report(("nccl: rank " + std::to_string(pair.first) + " sends " + std::to_string(from.bytes) + " bytes and rank " +
                            std::to_string(pair.second) + " receives " + std::to_string(to.bytes)).c_str());
            world.stuck.push_back(from);
            world.stuck.push_back(to);
            continue;
        }
        standin_end(from.operation, 0);
        standin_end(to.operation, 0);
    }
}
// Takes back what a rank has posted and nobody has met; says how much that was.
int withdraw(Comm *comm, std::string &what) {
    int n = 0;
    for (auto *side : {&comm->world->sends, &comm->world->receives})
        for (auto &entry : *side) {
            auto &halves = entry.second;
            for (auto half = halves.begin(); half != halves.end();) {
                if (half->comm != comm) { ++half; continue; }
                const bool sends = side == &comm->world->sends;
                if (!n++) what = sends ? "send to rank " + std::to_string(entry.first.second) : "receive from rank " + std::to_string(entry.first.first);
                standin_end(half->operation, 1);
                half = halves.erase(half);
            }
        }
    auto &stuck = comm->world->stuck;
    for (auto half = stuck.begin(); half != stuck.end();) {
        if (half->comm != comm) { ++half; continue; }
        standin_end(half->operation, 1);
        half = stuck.erase(half);
    }
    return n;
}
Result post(std::vector<Call> calls) {
    for (auto &call : calls) {
        if (call.bytes && standin_touch(call.stream, call.memory, call.bytes, !call.sends, call.sends ? "ncclSend" : "ncclRecv"))
            return INVALID_ARGUMENT;
    }
    std::lock_guard<std::mutex> lock(g_mutex);
    for (auto &call : calls) {
        if (call.comm->aborted) return INVALID_USAGE;
        void *operation = standin_begin(call.stream);
        if (!operation) return INVALID_ARGUMENT;
        World &world = *call.comm->world;
        if (call.sends && call.bytes && call.bytes == standin_lost_bytes()) { world.stuck.push_back({call.memory, call.bytes, operation, call.comm}); continue; }
        const auto pair = call.sends ? std::make_pair(call.comm->rank, call.peer) : std::make_pair(call.peer, call.comm->rank);
        (call.sends ? world.sends : world.receives)[pair].push_back({call.memory, call.bytes, operation, call.comm});
        match(world, pair);
    }
    return OK;
}
Result submit(Call call) {
    if (call.peer < 0 || call.peer >= call.comm->world->n) return INVALID_ARGUMENT;
    if (t_depth) { t_calls.push_back(call); return OK; }
    return post({call});
}
}  // namespace

extern "C" {
Result ncclGetVersion(int *version) { *version = 22203; return OK; }
const char *ncclGetErrorString(Result) { return "the stand-in's report says more"; }
const char *ncclGetLastError(void *) { return "the stand-in's report says more"; }
Result ncclGetUniqueId(Id *id) {
    std::lock_guard<std::mutex> lock(g_mutex);
    std::memset(id, 0, sizeof *id);
    const uint64_t number = g_next++;
    std::memcpy(id->internal, &number, sizeof number);
    return OK;
}
Result ncclCommInitRank(Comm **comm, int n, Id id, int rank) {
    if (n < 1 || rank < 0 || rank >= n) return INVALID_ARGUMENT;
    const int device = standin_current_device();
    if (device < 0) { standin_report("nccl: no context is current"); return INVALID_USAGE; }
    const int64_t patience_ms = standin_patience_ms();
    uint64_t number; std::memcpy(&number, id.internal, sizeof number);
    std::unique_lock<std::mutex> lock(g_mutex);
    auto world = g_worlds[number].lock();
    if (!world) g_worlds[number] = world = std::make_shared<World>();
    if (world->n && world->n != n) { standin_report("nccl: ranks disagree on their number"); return INVALID_ARGUMENT; }
    world->n = n;
    for (auto &other : world->devices)
        if (other.second == device) {
            standin_report("nccl: two ranks on one device");
            world->refused = true;
            g_joined.notify_all();
            return INVALID_USAGE;
        }
    world->devices[rank] = device;
    ++world->joined;
    g_joined.notify_all();
    if (!g_joined.wait_for(lock, std::chrono::milliseconds(patience_ms), [&] { return world->refused || world->joined >= n; })) {
        standin_report("nccl: a rank never joined");
        return REMOTE;
    }
    if (world->refused) return INVALID_USAGE;
    auto *made = new Comm; made->world = world; made->rank = rank;
    *comm = made;
    return OK;
}
Result ncclCommGetAsyncError(Comm *comm, Result *error) { std::lock_guard<std::mutex> lock(g_mutex); *error = comm->error; return OK; }
Result ncclCommAbort(Comm *comm) {
    std::lock_guard<std::mutex> lock(g_mutex);
    std::string what;
    withdraw(comm, what);
    comm->aborted = true;   // not freed: a second use must be found
    return OK;
}
Result ncclCommDestroy(Comm *comm) {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (comm->aborted) { standin_report("nccl: a communicator destroyed twice"); return INVALID_USAGE; }
    std::string what;
    if (withdraw(comm, what)) standin_report(("nccl: rank " + std::to_string(comm->rank) + " leaves an unpaired " + what).c_str());
    comm->aborted = true;
    return OK;
}
Result ncclGroupStart() { ++t_depth; return OK; }
Result ncclGroupEnd() {
    if (!t_depth) return INVALID_USAGE;
    if (--t_depth) return OK;
    auto calls = std::move(t_calls);
    t_calls.clear();
    return post(std::move(calls));
}
Result ncclSend(const void *memory, size_t n, int type, int peer, Comm *comm, void *stream) {
    return submit({true, memory, n * width(type), peer, comm, stream});
}
Result ncclRecv(void *memory, size_t n, int type, int peer, Comm *comm, void *stream) {
    return submit({false, memory, n * width(type), peer, comm, stream});
}
}
