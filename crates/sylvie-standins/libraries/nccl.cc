// NCCL for ranks that are threads of one process, or, where SYLVIE_STANDIN_NCCL=processes says so, processes of one host
// that are joined by sockets. A group is posted when it ends and moves when its other half is
// there; the stream is busy until then, as on a device. What NCCL would answer with a hang or with other
// people's bytes - halves of different sizes, a half that never comes, two ranks on one device - is reported. Between
// processes a send is over once it is written: whether it is ever met is seen by the receiver alone.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
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
    // Of ranks that are processes: their sockets, and what they have sent and nobody has received.
    std::vector<int> sockets;
    std::map<int, std::deque<std::vector<char>>> arrived;
};
struct Comm {
    std::shared_ptr<World> world; int rank; Result error = OK; bool aborted = false;
    Comm(std::shared_ptr<World> world, int rank) : world(std::move(world)), rank(rank) {}
};
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
bool between_processes() {
    const char *text = std::getenv("SYLVIE_STANDIN_NCCL");
    return text && std::strcmp(text, "processes") == 0;
}
bool write_all(int socket, const void *bytes, size_t n) {
    for (auto *at = (const char *)bytes; n;) {
        const ssize_t done = send(socket, at, n, MSG_NOSIGNAL);
        if (done <= 0) return false;
        at += done; n -= size_t(done);
    }
    return true;
}
bool read_all(int socket, void *bytes, size_t n) {
    for (auto *at = (char *)bytes; n;) {
        const ssize_t done = recv(socket, at, n, 0);
        if (done <= 0) return false;
        at += done; n -= size_t(done);
    }
    return true;
}
// Hands over what has arrived from another process.
void match_arrived(World &world, int from, int to) {
    auto &arrived = world.arrived[from];
    auto &receives = world.receives[{from, to}];
    while (!arrived.empty() && !receives.empty()) {
        Half half = receives.front();
        const std::vector<char> message = std::move(arrived.front());
        receives.pop_front(); arrived.pop_front();
        if (message.size() == half.bytes) {
            std::memcpy(const_cast<void *>(half.memory), message.data(), half.bytes);
            standin_end(half.operation, 0);
            continue;
        }
        standin_report(("nccl: rank " + std::to_string(from) + " sends " + std::to_string(message.size()) + " bytes and rank " +
                        std::to_string(to) + " receives " + std::to_string(half.bytes)).c_str());
        world.stuck.push_back(half);
    }
}
void read_from(std::shared_ptr<World> world, int from, int to) {
    const int socket = world->sockets[size_t(from)];
    uint64_t n;
    while (read_all(socket, &n, sizeof n)) {
        std::vector<char> message(n);
        if (!read_all(socket, message.data(), n)) return;
        std::lock_guard<std::mutex> lock(g_mutex);
        world->arrived[from].push_back(std::move(message));
        match_arrived(*world, from, to);
    }
}
sockaddr_un place_of(const std::string &folder, int rank) {
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::snprintf(place.sun_path, sizeof place.sun_path, "%s/%d", folder.c_str(), rank);
    return place;
}
// Joins ranks that are processes, by sockets in a folder; each listens for those after it.
Result join_processes(const std::shared_ptr<World> &world, int rank, int device, const std::string &folder) {
    const int n = world->n;
    const timeval patience{standin_patience_ms() / 1000, 0};
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(standin_patience_ms());
    world->sockets.assign(size_t(n), -1);
    sockaddr_un own = place_of(folder, rank);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bind(listener, (sockaddr *)&own, sizeof own) || listen(listener, n)) { standin_report("nccl: no socket"); return INTERNAL; }
    int hello[2] = {rank, device};
    bool shares = false;
    for (int other = 0; other < rank; ++other) {
        const sockaddr_un place = place_of(folder, other);
        const int way = socket(AF_UNIX, SOCK_STREAM, 0);
        while (connect(way, (const sockaddr *)&place, sizeof place)) {
            if (std::chrono::steady_clock::now() > until) { standin_report("nccl: a rank never joined"); return REMOTE; }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        int theirs;
        if (!write_all(way, hello, sizeof hello) || !read_all(way, &theirs, sizeof theirs)) return REMOTE;
        shares |= theirs == device;
        world->sockets[size_t(other)] = way;
    }
    for (int left = n - 1 - rank; left; --left) {
        const int way = accept(listener, nullptr, nullptr);
        int theirs[2];
        if (way < 0 || !read_all(way, theirs, sizeof theirs) || !write_all(way, &device, sizeof device)) {
            standin_report("nccl: a rank never joined");
            return REMOTE;
        }
        shares |= theirs[1] == device;
        world->sockets[size_t(theirs[0])] = way;
    }
    close(listener);
    unlink(own.sun_path);
    rmdir(folder.c_str());   // the last one's succeeds
    if (shares) { standin_report("nccl: two ranks on one device"); return INVALID_USAGE; }
    for (int other = 0; other < n; ++other)
        if (other != rank) std::thread(read_from, world, other, rank).detach();
    return OK;
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
    struct Sent { int socket; std::vector<char> bytes; void *operation; };
    std::vector<Sent> sent;
    std::unique_lock<std::mutex> lock(g_mutex);
    for (auto &call : calls) {
        if (call.comm->aborted) return INVALID_USAGE;
        void *operation = standin_begin(call.stream);
        if (!operation) return INVALID_ARGUMENT;
        World &world = *call.comm->world;
        if (call.sends && call.bytes && call.bytes == standin_lost_bytes()) { world.stuck.push_back({call.memory, call.bytes, operation, call.comm}); continue; }
        const bool is_far = !world.sockets.empty() && call.peer != call.comm->rank;
        if (is_far && call.sends) {
            const auto *bytes = (const char *)call.memory;
            sent.push_back({world.sockets[size_t(call.peer)], std::vector<char>(bytes, bytes + call.bytes), operation});
            continue;
        }
        const auto pair = call.sends ? std::make_pair(call.comm->rank, call.peer) : std::make_pair(call.peer, call.comm->rank);
        (call.sends ? world.sends : world.receives)[pair].push_back({call.memory, call.bytes, operation, call.comm});
        if (is_far) match_arrived(world, call.peer, call.comm->rank); else match(world, pair);
    }
    lock.unlock();
    // Without the lock: those who read need it, on the other side as well.
    for (auto &message : sent) {
        const uint64_t n = message.bytes.size();
        const bool is_written = write_all(message.socket, &n, sizeof n) && write_all(message.socket, message.bytes.data(), n);
        standin_end(message.operation, !is_written);
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
    if (between_processes()) {
        char folder[] = "/tmp/sylvie-nccl-XXXXXX";
        if (!mkdtemp(folder)) { standin_report("nccl: no folder for sockets"); return INTERNAL; }
        std::memcpy(id->internal + sizeof number, folder, sizeof folder);
    }
    return OK;
}
Result ncclCommInitRank(Comm **comm, int n, Id id, int rank) {
    if (n < 1 || rank < 0 || rank >= n) return INVALID_ARGUMENT;
    const int device = standin_current_device();
    if (device < 0) { standin_report("nccl: no context is current"); return INVALID_USAGE; }
    const int64_t patience_ms = standin_patience_ms();
    uint64_t number; std::memcpy(&number, id.internal, sizeof number);
    if (id.internal[sizeof number]) {
        auto world = std::make_shared<World>();
        world->n = n;
        const Result joined = join_processes(world, rank, device, id.internal + sizeof number);
        if (joined != OK) return joined;
        *comm = new Comm(world, rank);
        return OK;
    }
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
    *comm = new Comm(world, rank);
    return OK;
}
Result ncclCommGetAsyncError(Comm *comm, Result *error) { std::lock_guard<std::mutex> lock(g_mutex); *error = comm->error; return OK; }
Result ncclCommAbort(Comm *comm) {
    std::lock_guard<std::mutex> lock(g_mutex);
    std::string what;
    withdraw(comm, what);
    for (int socket : comm->world->sockets) if (socket >= 0) shutdown(socket, SHUT_RDWR);
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
