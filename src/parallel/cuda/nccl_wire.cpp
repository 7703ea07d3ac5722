// The DeviceWire over NCCL: ncclSend and ncclRecv in groups, on communicators whose calls do not wait.
// Compiled where NCCL's header is found; its library is opened when it is asked for.
#include "parallel/nccl_backend.hpp"

#if __has_include(<nccl.h>)

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <mutex>

#include "banyan/base/error.hpp"
#include "device/cuda/cuda_device.hpp"

namespace banyan::parallel {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

/// NCCL's functions, under its names.
struct Nccl {
  decltype(&::ncclGetVersion) ncclGetVersion = nullptr;
  decltype(&::ncclGetUniqueId) ncclGetUniqueId = nullptr;
  decltype(&::ncclCommInitRankConfig) ncclCommInitRankConfig = nullptr;
  decltype(&::ncclCommGetAsyncError) ncclCommGetAsyncError = nullptr;
  decltype(&::ncclCommFinalize) ncclCommFinalize = nullptr;
  decltype(&::ncclCommDestroy) ncclCommDestroy = nullptr;
  decltype(&::ncclCommAbort) ncclCommAbort = nullptr;
  decltype(&::ncclGroupStart) ncclGroupStart = nullptr;
  decltype(&::ncclGroupEnd) ncclGroupEnd = nullptr;
  decltype(&::ncclSend) ncclSend = nullptr;
  decltype(&::ncclRecv) ncclRecv = nullptr;
  decltype(&::ncclGetErrorString) ncclGetErrorString = nullptr;
  decltype(&::ncclGetLastError) ncclGetLastError = nullptr;
  std::string why;  ///< it cannot be used
};

Nccl load() {
  Nccl nccl;
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    nccl.why = cat("cannot load NCCL: ", dlerror());
    return nccl;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) nccl.why = cat(kLibrary, " is too old: it lacks ", name);
  };
  find(nccl.ncclGetVersion, "ncclGetVersion");
  find(nccl.ncclGetUniqueId, "ncclGetUniqueId");
  find(nccl.ncclCommInitRankConfig, "ncclCommInitRankConfig");
  find(nccl.ncclCommGetAsyncError, "ncclCommGetAsyncError");
  find(nccl.ncclCommFinalize, "ncclCommFinalize");
  find(nccl.ncclCommDestroy, "ncclCommDestroy");
  find(nccl.ncclCommAbort, "ncclCommAbort");
  find(nccl.ncclGroupStart, "ncclGroupStart");
  find(nccl.ncclGroupEnd, "ncclGroupEnd");
  find(nccl.ncclSend, "ncclSend");
  find(nccl.ncclRecv, "ncclRecv");
  find(nccl.ncclGetErrorString, "ncclGetErrorString");
  find(nccl.ncclGetLastError, "ncclGetLastError");
  return nccl;
}

const Nccl& nccl() {
  static const Nccl loaded = load();
  return loaded;
}

/// A call on a communicator may still be under way when it returns.
void check(ncclResult_t status, const std::string& device, const char* call, ncclComm_t comm = nullptr) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  const char* more = nccl().ncclGetLastError(comm);
  runtime_failure(device, ": NCCL: ", call, " failed: ", nccl().ncclGetErrorString(status),
                  more != nullptr && *more != 0 ? cat(" (", more, ")") : "");
}

class NcclWire final : public DeviceWire {
 public:
  NcclWire(Device& device, const std::string& key, int devices, int rank) : device_(device) {
    ncclUniqueId id;
    if (key.size() != sizeof id) runtime_failure(device.name(), ": NCCL's key arrived damaged");
    std::memcpy(&id, key.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    device.make_current();
    check(nccl().ncclCommInitRankConfig(&comm_, devices, id, rank, &config), device.name(),
          "ncclCommInitRankConfig");
  }
  ~NcclWire() override {
    if (comm_ == nullptr) return;
    if (finalized_)
      nccl().ncclCommDestroy(comm_);
    else
      nccl().ncclCommAbort(comm_);
  }

  void exchange(Stream& stream, std::span<const DeviceTransfer> transfers) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (comm_ == nullptr) return;
    device_.make_current();
    const cudaStream_t native = static_cast<CudaStream&>(stream).native();
    check(nccl().ncclGroupStart(), device_.name(), "ncclGroupStart", comm_);
    // A group that was started must end, whatever fails in it.
    ncclResult_t failed = ncclSuccess;
    for (const DeviceTransfer& transfer : transfers) {
      const ncclResult_t status =
          transfer.way == DeviceTransfer::Way::send
              ? nccl().ncclSend(transfer.data, transfer.bytes, ncclUint8, transfer.rank, comm_, native)
              : nccl().ncclRecv(transfer.data, transfer.bytes, ncclUint8, transfer.rank, comm_, native);
      if (status != ncclSuccess && status != ncclInProgress && failed == ncclSuccess) failed = status;
    }
    const ncclResult_t ended = nccl().ncclGroupEnd();
    check(failed, device_.name(), "ncclSend or ncclRecv", comm_);
    check(ended, device_.name(), "ncclGroupEnd", comm_);
  }

  bool ready() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (comm_ == nullptr) return true;
    ncclResult_t state = ncclSuccess;
    check(nccl().ncclCommGetAsyncError(comm_, &state), device_.name(), "ncclCommGetAsyncError", comm_);
    check(state, device_.name(), "an exchange with other processes", comm_);
    return state != ncclInProgress;
  }

  void leave() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (comm_ == nullptr) return;
    device_.make_current();
    check(nccl().ncclCommFinalize(comm_), device_.name(), "ncclCommFinalize", comm_);
    finalized_ = true;
  }

  /// In a group: see abort() below.
  void abort() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (comm_ != nullptr) nccl().ncclCommAbort(comm_);
    comm_ = nullptr;
  }

 private:
  Device& device_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  bool finalized_ = false;
};

std::string version() {
  int number = 0;
  nccl().ncclGetVersion(&number);
  return cat("NCCL ", number / 10000, ".", number / 100 % 100, ".", number % 100);
}

std::string make_key() {
  ncclUniqueId id;
  check(nccl().ncclGetUniqueId(&id), "the first process", "ncclGetUniqueId");
  return {reinterpret_cast<const char*>(&id), sizeof id};
}

std::unique_ptr<DeviceWire> join(Device& device, const std::string& key, int devices, int rank) {
  if (device.kind() != DeviceKind::cuda) bad_input("--uplink=nccl joins GPUs, not ", device.name());
  return std::make_unique<NcclWire>(device, key, devices, rank);
}

/// ncclCommAbort frees memory of the GPU, which waits for all that runs there: alone, it would wait for the
/// exchanges of communicators that have not been aborted. In a group (NCCL 2.22) all end first.
void abort(std::span<DeviceWire* const> wires) noexcept {
  nccl().ncclGroupStart();
  for (DeviceWire* wire : wires) static_cast<NcclWire*>(wire)->abort();
  nccl().ncclGroupEnd();
}

constexpr DeviceWires kWires{&version, &make_key, &join, &abort};

const DeviceWires* find(std::string* why) {
  *why = nccl().why;
  return why->empty() ? &kWires : nullptr;
}

}  // namespace
}  // namespace banyan::parallel

#else

namespace banyan::parallel {
namespace {

const DeviceWires* find(std::string* why) {
  *why = "this build was made without NCCL's header";
  return nullptr;
}

}  // namespace
}  // namespace banyan::parallel

#endif

extern "C" const banyan::parallel::DeviceWires* banyan_nccl_backend_2(std::string* why) {
  return banyan::parallel::find(why);
}
