// NCCL, for groups of GPUs of one process: sends and receives that meet, as the library documents them. A
// group call runs as one piece of its stream's work, and ends when each of its transfers has met the other
// side's; nothing is kept in between, so that calls in orders that do not fit wait for each other for ever.
// Communicators do not wait, and take their time: a group is enqueued only when ncclCommGetAsyncError has
// been asked, so what the program enqueues before is in front of it.
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "runtime.hpp"

using namespace emulated;

namespace {

struct Clique;

struct Transfer {
  bool send;
  void* values;
  std::size_t bytes;
  int peer;
};

/// The messages from one rank to another.
struct Channel {
  std::deque<std::pair<const char*, std::size_t>> offered;
  std::uint64_t taken = 0;
};

}  // namespace

/// Lives until the last work that uses it, which may be after ncclCommAbort.
struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, gpu = 0;
  bool aborted = false;  // the clique's mutex guards what follows
  bool finalized = false;
  std::vector<Transfer> ended;  ///< a group that is not enqueued yet
  cudaStream_t stream = nullptr;
};

namespace {

struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0;
  std::map<int, std::shared_ptr<ncclComm>> members;
  std::size_t finalized = 0;
  std::map<std::pair<int, int>, Channel> channels;  ///< from, to
  bool complete() const { return static_cast<int>(members.size()) == ranks; }
};

/// What a thread has collected since ncclGroupStart.
struct OpenGroup {
  int depth = 0;
  std::shared_ptr<ncclComm> comm;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;
  std::vector<int> aborted_on;  ///< GPUs
};
thread_local OpenGroup group;

struct World {
  std::mutex mutex;
  std::uint64_t keys = 0;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::map<ncclComm*, std::shared_ptr<ncclComm>> comms;
};
World& world() {
  const Quiet quiet;
  static auto* const kWorld = new World;
  return *kWorld;
}

std::shared_ptr<ncclComm> comm_of(ncclComm_t handle, const char* function) {
  World& w = world();
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(w.mutex);
  const auto found = w.comms.find(handle);
  if (found != w.comms.end()) return found->second;
  complain(function, " on a communicator that is destroyed, or never was");
  return nullptr;
}

void forget(ncclComm_t handle) {
  World& w = world();
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(w.mutex);
  w.comms.erase(handle);
}

bool call_fails(const char* function, int gpu) {
  int code = 0;
  return fails(function, gpu, &code);
}

/// Waits until `reached`; false: the communicator was aborted, or its GPU is lost.
template <class Reached>
bool wait_in(ncclComm& comm, std::unique_lock<std::mutex>& lock, const Reached& reached) {
  for (;;) {
    if (comm.aborted || is_broken(comm.gpu)) return false;
    if (reached()) return true;
    comm.clique->changed.wait_for(lock, std::chrono::milliseconds(2));
  }
}

void run_group(ncclComm& comm, const std::vector<Transfer>& transfers, Running& now) {
  Clique& clique = *comm.clique;
  std::vector<std::pair<Channel*, std::uint64_t>> sent;
  std::vector<const char*> sources;
  for (const Transfer& transfer : transfers)
    if (transfer.send) sources.push_back(now.read(transfer.values, transfer.bytes, "what ncclSend sends"));
  const Quiet quiet;
  std::unique_lock<std::mutex> lock(clique.mutex);
  if (comm.aborted) return;
  std::size_t number = 0;
  for (const Transfer& transfer : transfers) {
    if (!transfer.send) continue;
    Channel& channel = clique.channels[{comm.rank, transfer.peer}];
    channel.offered.emplace_back(sources[number++], transfer.bytes);
    sent.emplace_back(&channel, channel.taken + channel.offered.size());
  }
  clique.changed.notify_all();
  for (const Transfer& transfer : transfers) {
    if (transfer.send) continue;
    Channel& channel = clique.channels[{transfer.peer, comm.rank}];
    if (!wait_in(comm, lock, [&] { return !channel.offered.empty(); })) return;
    const auto [from, bytes] = channel.offered.front();
    if (bytes != transfer.bytes) {
      complain("ncclRecv of ", transfer.bytes, " bytes from rank ", transfer.peer, ", which sends ", bytes);
      return;
    }
    char* to = now.write(transfer.values, transfer.bytes, "what ncclRecv receives");
    if (to == nullptr || from == nullptr) return;
    std::memcpy(to, from, bytes);
#if defined(EMULATED_CUDA_CHECK)
    note_written(to, bytes);
#endif
    channel.offered.pop_front();
    ++channel.taken;
    clique.changed.notify_all();
  }
  for (const auto& [channel, until] : sent) {
    const auto done = [&channel = channel, until = until] { return channel->taken >= until; };
    if (!wait_in(comm, lock, done)) return;
  }
}

/// May not be used before ncclCommGetAsyncError has said that the last call is done.
bool is_under_way(ncclComm& comm, const char* function) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(comm.clique->mutex);
  if (comm.clique->complete() && comm.ended.empty()) return false;
  complain(function, " on a communicator whose last call may be in progress (ncclCommGetAsyncError tells)");
  return true;
}

/// False: there is none.
bool enqueue_ended_group(const std::shared_ptr<ncclComm>& comm) {
  std::vector<Transfer> transfers;
  cudaStream_t handle = nullptr;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(comm->clique->mutex);
    if (comm->ended.empty()) return false;
    transfers = std::exchange(comm->ended, {});
    handle = comm->stream;
    if (comm->aborted) return false;
  }
  if (Stream* stream = stream_of(handle, "ncclGroupEnd"); stream != nullptr)
    enqueue(*stream, "transfers of NCCL",
            [comm, transfers](Running& now) { run_group(*comm, transfers, now); });
  return true;
}

ncclResult_t add_transfer(const char* function, const Transfer& transfer, ncclDataType_t type,
                          ncclComm_t handle, cudaStream_t stream) {
  const auto comm = comm_of(handle, function);
  if (comm == nullptr) return ncclInvalidArgument;
  if (call_fails(function, comm->gpu)) return ncclUnhandledCudaError;
  if (is_under_way(*comm, function)) return ncclInvalidUsage;
  if (group.depth == 0 || type != ncclUint8 || transfer.peer < 0 || transfer.peer >= comm->clique->ranks ||
      transfer.peer == comm->rank ||
      (group.comm != nullptr && (group.comm != comm || group.stream != stream))) {
    complain(function,
             ": the emulator has groups of bytes for other ranks only, on one communicator and one stream");
    return ncclInvalidUsage;
  }
  group.comm = comm;
  group.stream = stream;
  group.transfers.push_back(transfer);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (call_fails("ncclGetUniqueId", current_device)) return ncclUnhandledCudaError;
  World& w = world();
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(w.mutex);
  *id = {};
  const std::string key = "emulated " + std::to_string(++w.keys);
  std::memcpy(id->internal, key.data(), key.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (call_fails("ncclCommInitRankConfig", current_device)) return ncclUnhandledCudaError;
  if (config == nullptr || config->blocking != 0) {
    complain("ncclCommInitRankConfig: the emulator's communicators do not wait (blocking = 0)");
    return ncclInvalidUsage;
  }
  World& w = world();
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(w.mutex);
  std::shared_ptr<Clique>& clique = w.cliques[id.internal];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  const std::lock_guard<std::mutex> in_clique(clique->mutex);
  if (clique->ranks == 0) clique->ranks = ranks;
  for (const auto& [other, member] : clique->members)
    if (member->gpu == current_device || other == rank) return ncclInvalidUsage;
  if (clique->ranks != ranks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto comm = std::make_shared<ncclComm>();
  comm->clique = clique;
  comm->rank = rank;
  comm->gpu = current_device;
  clique->members[rank] = comm;
  if (clique->complete()) w.cliques.erase(id.internal);
  w.comms[comm.get()] = comm;
  *handle = comm.get();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const auto comm = comm_of(handle, "ncclCommGetAsyncError");
  if (comm == nullptr) return ncclInvalidArgument;
  if (is_broken(comm->gpu)) {
    *error = ncclUnhandledCudaError;
    return ncclSuccess;
  }
  if (call_fails("ncclCommGetAsyncError", comm->gpu)) return ncclUnhandledCudaError;
  if (enqueue_ended_group(comm)) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
  const Clique& clique = *comm->clique;
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(comm->clique->mutex);
  const bool waits =
      !clique.complete() || (comm->finalized && clique.finalized < clique.members.size() && !comm->aborted);
  *error = waits ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const auto comm = comm_of(handle, "ncclCommFinalize");
  if (comm == nullptr) return ncclInvalidArgument;
  if (call_fails("ncclCommFinalize", comm->gpu)) return ncclUnhandledCudaError;
  if (is_under_way(*comm, "ncclCommFinalize")) return ncclInvalidUsage;
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(comm->clique->mutex);
  if (!std::exchange(comm->finalized, true)) ++comm->clique->finalized;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const auto comm = comm_of(handle, "ncclCommDestroy");
  if (comm == nullptr) return ncclInvalidArgument;
  forget(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const auto comm = comm_of(handle, "ncclCommAbort");
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(comm->clique->mutex);
    comm->aborted = true;
  }
  comm->clique->changed.notify_all();
  forget(handle);
  if (group.depth > 0)
    group.aborted_on.push_back(comm->gpu);
  else
    wait_for_gpu(comm->gpu);  // memory is freed
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  OpenGroup ended = std::exchange(group, {});
  for (const int gpu : ended.aborted_on) wait_for_gpu(gpu);
  if (ended.comm == nullptr) return ncclSuccess;
  if (call_fails("ncclGroupEnd", ended.comm->gpu)) return ncclUnhandledCudaError;
  Stream* stream = stream_of(ended.stream, "ncclGroupEnd");
  if (stream == nullptr || stream->device != ended.comm->gpu) {
    complain("ncclGroupEnd: the stream belongs to another GPU than the communicator");
    return ncclInvalidUsage;
  }
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(ended.comm->clique->mutex);
  ended.comm->ended = std::move(ended.transfers);
  ended.comm->stream = ended.stream;
  return ncclInProgress;
}

ncclResult_t ncclSend(const void* values, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_transfer("ncclSend", {true, const_cast<void*>(values), count, peer}, type, comm, stream);
}

ncclResult_t ncclRecv(void* values, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_transfer("ncclRecv", {false, values, count, peer}, type, comm, stream);
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

}  // extern "C"
