// The CUDA runtime: memory and copies.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "runtime.hpp"

namespace emulated {

namespace {

/// Detects a change of host memory.
std::uint64_t hash_of(const char* memory, std::size_t bytes) {
  const Quiet quiet;
  std::uint64_t hash = 0x9E3779B97F4A7C15u + bytes;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + at, 8);
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 29;
  }
  for (; at < bytes; ++at) hash = (hash ^ static_cast<unsigned char>(memory[at])) * 0xFF51AFD7ED558CCDu;
  return hash;
}

/// Host memory that pending copies will write.
class PendingWrites {
 public:
  void add(const void* to, std::size_t bytes) {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_.emplace(begin_of(to), begin_of(to) + bytes);
  }
  void remove(const void* to, std::size_t bytes) {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [first, last] = ranges_.equal_range(begin_of(to));
    for (auto it = first; it != last; ++it)
      if (it->second == begin_of(to) + bytes) {
        ranges_.erase(it);
        return;
      }
  }
  bool overlap(const void* memory, std::size_t bytes) {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [begin, end] : ranges_)
      if (begin < begin_of(memory) + bytes && begin_of(memory) < end) return true;
    return false;
  }

 private:
  static std::uintptr_t begin_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
  std::mutex mutex_;
  std::multimap<std::uintptr_t, std::uintptr_t> ranges_;
};
PendingWrites& pending_writes() {
  const Quiet quiet;
  static auto* const kPending = new PendingWrites;
  return *kPending;
}
/// Until the copy has run, or never will: its GPU has failed for good, its stream is gone.
class PendingWrite {
 public:
  PendingWrite(const void* to, std::size_t bytes) : to_(to), bytes_(bytes) {
    pending_writes().add(to_, bytes_);
  }
  PendingWrite(const PendingWrite&) = delete;
  PendingWrite& operator=(const PendingWrite&) = delete;
  ~PendingWrite() { pending_writes().remove(to_, bytes_); }

 private:
  const void* to_;
  std::size_t bytes_;
};

/// Waits as long as the copy takes at the link's speed.
void take_time(const void* to, const void* from, std::size_t bytes) {
  const bool to_gpu = is_device_address(to), from_gpu = is_device_address(from);
  double gbps = 0;
  if (to_gpu && from_gpu) {
    const int a = static_cast<int>(gpu_of_address(to)), b = static_cast<int>(gpu_of_address(from));
    if (a != b)
      gbps = Memory::get().peer_enabled(a, b) || Memory::get().peer_enabled(b, a) ? settings().peer_gbps
                                                                                  : settings().staged_gbps;
  } else if (to_gpu || from_gpu) {
    gbps = settings().host_gbps;
  }
  if (gbps <= 0) return;
  const Quiet quiet;
  std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(static_cast<double>(bytes) / gbps));
}

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool from_host, to_host, from_pinned, to_pinned;
  bool hashed;  ///< the source must not change until the copy runs
  std::uint64_t hash;
};

void run_copy(const Copy& c, Running& now) {
  Memory& memory = Memory::get();
  if (c.from_pinned && !memory.is_pinned(c.from, c.bytes))
    return complain("a copy's pinned source was freed before the copy ran");
  if (c.to_pinned && !memory.is_pinned(c.to, c.bytes))
    return complain("a copy's pinned target was freed before the copy ran");
  const char* from = now.read(c.from, c.bytes, "a copy's source", true);
  char* to = now.write(c.to, c.bytes, "a copy's target", true);
  if (from == nullptr || to == nullptr) return;
  if (c.hashed && hash_of(from, c.bytes) != c.hash)
    complain("host memory was changed between cudaMemcpyAsync and the copy: ", c.bytes, " bytes at ",
             memory.describe(c.from));
  take_time(c.to, c.from, c.bytes);
  const Quiet quiet;
  std::memcpy(to, from, c.bytes);
#if defined(EMULATED_CUDA_CHECK)
  copy_written(from, to, c.bytes);
#endif
}

const char* direction(const Copy& c) {
  if (c.from_host) return c.to_host ? "from host to host" : "from host to device";
  if (c.to_host) return "from device to host";
  return gpu_of_address(c.from) == gpu_of_address(c.to) ? "within a device" : "between devices";
}

cudaError_t copy_async(Stream& stream, void* to, const void* from, std::size_t bytes, const char* function) {
  Memory& memory = Memory::get();
  for (const void* address : {from, static_cast<const void*>(to)}) {
    const std::string why = memory.why_not(address, bytes, -1);
    if (why.empty()) continue;
    complain(function, " of ", bytes, " bytes: ", memory.describe(address), ": ", why);
    return result(cudaErrorInvalidValue);
  }
  const auto begin_to = reinterpret_cast<std::uintptr_t>(to),
             begin_from = reinterpret_cast<std::uintptr_t>(from);
  if (begin_to < begin_from + bytes && begin_from < begin_to + bytes)
    complain(function, ": source and target overlap");
  Copy c{};
  c.to = to;
  c.from = from;
  c.bytes = bytes;
  c.from_host = !is_device_address(from);
  c.to_host = !is_device_address(to);
  c.from_pinned = c.from_host && memory.is_pinned(from, bytes);
  c.to_pinned = c.to_host && memory.is_pinned(to, bytes);
  if (c.from_host != c.from_pinned)
    note(std::string(function) +
         " from pageable host memory: the host may wait, and the source may be read before or after the call "
         "returns");
  if (c.to_host != c.to_pinned) note(std::string(function) + " to pageable host memory: the host waits");
  if (c.from_host && c.to_host) note(std::string(function) + " from host to host");
  c.hashed = c.from_host && stream.capture == nullptr && !pending_writes().overlap(from, bytes);
  if (c.hashed) {
    tell_access(from, bytes, false);
    c.hash = hash_of(static_cast<const char*>(from), bytes);
  }
  std::shared_ptr<const PendingWrite> pending;
  if (c.to_host && stream.capture == nullptr) pending = std::make_shared<const PendingWrite>(to, bytes);
  count(std::string("copies ") + direction(c));
  count(std::string("bytes copied ") + direction(c), bytes);
  enqueue(stream, std::string(function) + " of " + std::to_string(bytes) + " bytes " + direction(c),
          [c, pending = std::move(pending)](Running& now) { run_copy(c, now); });
  return cudaSuccess;
}

std::size_t pages_of(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096; }

bool kind_fits(cudaMemcpyKind kind, const void* to, const void* from) {
  if (kind == cudaMemcpyDefault) return true;
  const bool from_gpu = is_device_address(from), to_gpu = is_device_address(to);
  return kind == (from_gpu ? to_gpu ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost
                  : to_gpu ? cudaMemcpyHostToDevice
                           : cudaMemcpyHostToHost);
}

}  // namespace

}  // namespace emulated

using namespace emulated;

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  EMULATED_CALL(cudaMalloc, cudaErrorMemoryAllocation);
  if (data == nullptr) return result(cudaErrorInvalidValue);
  if (capture_forbids("cudaMalloc")) return result(cudaErrorStreamCaptureUnsupported);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  count("allocations");
  *data = Memory::get().allocate(current_device, bytes);
  return *data != nullptr ? cudaSuccess : result(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* data) {
  EMULATED_END(cudaFree);
  if (data == nullptr) return ended_with;
  if (capture_forbids("cudaFree")) return result(cudaErrorStreamCaptureUnsupported);
  if (!is_device_address(data) || gpu_of_address(data) >= Memory::get().gpus()) {
    complain("cudaFree of what cudaMalloc has not made: ", static_cast<const void*>(data));
    return result(cudaErrorInvalidValue);
  }
  count("releases");
  wait_for_gpu(static_cast<int>(gpu_of_address(data)));
  return Memory::get().release(data) ? ended_with : result(cudaErrorInvalidValue);
}

// Pinned memory comes and goes outside of streams, unseen by a capture, and CUDA may synchronize for it: such
// calls are forbidden during a capture. NVIDIA names cudaMalloc only as an example of them; cudaHostRegister
// is known to be refused.
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  EMULATED_CALL(cudaHostAlloc, cudaErrorMemoryAllocation);
  if (capture_forbids("cudaHostAlloc")) return result(cudaErrorStreamCaptureUnsupported);
  // Separate pages whose addresses are not used twice: using them after they are freed faults.
  void* memory = mmap(nullptr, pages_of(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return result(cudaErrorMemoryAllocation);
  *data = memory;
  {
    const Quiet quiet;
    std::memset(*data, 0xFF, bytes);
  }
  count("allocations of pinned memory");
  Memory::get().pin(*data, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  EMULATED_END(cudaFreeHost);
  if (data == nullptr) return ended_with;
  if (capture_forbids("cudaFreeHost")) return result(cudaErrorStreamCaptureUnsupported);
  std::size_t bytes = 0;
  if (!Memory::get().unpin(data, &bytes)) {
    complain("cudaFreeHost of what cudaHostAlloc has not made: ", static_cast<const void*>(data));
    return result(cudaErrorInvalidValue);
  }
  madvise(data, pages_of(bytes), MADV_DONTNEED);
  mprotect(data, pages_of(bytes), PROT_NONE);
  return ended_with;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  EMULATED_CALL(cudaMemGetInfo, cudaErrorUnknown);
  *total = settings().memory;
  *free = *total - Memory::get().used(current_device);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  EMULATED_CALL(cudaMemcpyAsync, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaMemcpyAsync");
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (!kind_fits(kind, to, from)) {
    complain("cudaMemcpyAsync: the kind of copy does not fit source and target");
    return result(cudaErrorInvalidValue);
  }
  if (bytes == 0) return cudaSuccess;
  return copy_async(*stream, to, from, bytes, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  EMULATED_CALL(cudaMemcpy, cudaErrorUnknown);
  if (capture_forbids("cudaMemcpy")) return result(cudaErrorStreamCaptureImplicit);
  if (!kind_fits(kind, to, from)) {
    complain("cudaMemcpy: the kind of copy does not fit source and target");
    return result(cudaErrorInvalidValue);
  }
  if (bytes == 0) return cudaSuccess;
  Stream* stream = stream_of(nullptr, "cudaMemcpy");
  const cudaError_t status = copy_async(*stream, to, from, bytes, "cudaMemcpy");
  if (status == cudaSuccess) wait_for(mark(*stream, "cudaMemcpy"));
  return status;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  EMULATED_CALL(cudaMemsetAsync, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaMemsetAsync");
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  const std::string why = Memory::get().why_not(to, bytes, stream->device);
  if (!why.empty()) {
    complain("cudaMemsetAsync of ", bytes, " bytes at ", Memory::get().describe(to), ": ", why);
    return result(cudaErrorInvalidValue);
  }
  count("memsets");
  count("bytes set", bytes);
  enqueue(*stream, "cudaMemsetAsync of " + std::to_string(bytes) + " bytes", [=](Running& now) {
    char* target = now.write(to, bytes, "cudaMemsetAsync");
    const Quiet quiet;
    if (target != nullptr) std::memset(target, value, bytes);
  });
  return cudaSuccess;
}

}  // extern "C"
