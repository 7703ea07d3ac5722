// GPUs' memories and pinned host memory.
//
// A device address is not an address of the process: its bits from 47 up match no process address, so the
// host faults on it. Kernels and copies get the real address if their GPU may use the memory. No address is
// used twice; memory starts as NaNs (all bits set; large allocations only at both ends), with gaps between
// allocations, each aligned to 256 bytes, as CUDA promises, and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "access_history.hpp"

namespace emulated {

struct Allocation {
  std::uintptr_t offset = 0;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  ///< numbers the process's allocations, for messages
  bool live = true;
  std::vector<void*> stack;  ///< of cudaMalloc
};

inline constexpr std::uintptr_t kDeviceBits = 0x00D7E00000000000;
inline constexpr int kGpuShift = 40;
inline constexpr std::size_t kArenaBytes = std::size_t{128} << 30;

inline bool is_device_address(const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & 0xFFFFF00000000000) == kDeviceBits;
}
inline std::size_t gpu_of_address(const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & ~kDeviceBits) >> kGpuShift;
}
inline std::uintptr_t offset_of_address(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) & ((std::uintptr_t{1} << kGpuShift) - 1);
}
inline void* device_address(std::size_t gpu, std::uintptr_t offset) {
  return reinterpret_cast<void*>(kDeviceBits | static_cast<std::uintptr_t>(gpu) << kGpuShift | offset);
}

/// All memory. Its functions lock internally.
class Memory {
 public:
  static Memory& get();

  std::size_t gpus() const { return gpus_.size(); }
  /// Null if the GPU does not have enough memory left.
  void* allocate(int gpu, std::size_t bytes);
  /// Complains and returns false if there is no such allocation. The caller must have waited for the GPU.
  bool release(void* address);
  std::size_t used(int gpu);

  void pin(void* memory, std::size_t bytes);
  /// False: this was not pinned.
  bool unpin(void* memory, std::size_t* bytes);
  bool is_pinned(const void* memory, std::size_t bytes);

  bool can_access(int reader, int owner) const;
  /// False: already enabled.
  bool enable_peer(int reader, int owner);
  bool peer_enabled(int reader, int owner);

  /// Why work of GPU `user` (-1: a copy) cannot use these bytes; "": it can. Host memory must be pinned for a
  /// GPU to use it.
  std::string why_not(const void* address, std::size_t bytes, int user);
  /// The process's address for `address`; only after why_not returned "".
  char* real(const void* address) const;
  /// The GPU whose memory contains a real address; -1: none.
  int gpu_of_real(const void* real) const;
  /// The bounds of the allocation that holds [offset, offset + bytes), if it is live.
  bool find_live(std::size_t gpu, std::uintptr_t offset, std::size_t bytes, std::uintptr_t* begin,
                 std::uintptr_t* end);
  /// "byte 12 of allocation 7 (400 bytes) of gpu:0", "pinned host memory 0x...".
  std::string describe(const void* address);
  char* arena(std::size_t gpu) const { return gpus_[gpu].arena; }

  /// Of all work on the GPUs.
  AccessHistory& history() { return history_; }

  /// What the process leaves behind: "" if nothing.
  std::string leftovers();

 private:
  Memory();
  struct Gpu {
    char* arena = nullptr;
    std::uintptr_t next = 4096;
    std::size_t used = 0;
    std::map<std::uintptr_t, Allocation> allocations;  // by offset
    std::vector<bool> peers;                           // whose memory this GPU may use
  };
  const Allocation* around(const Gpu& gpu, std::uintptr_t offset) const;
  std::mutex mutex_;
  std::vector<Gpu> gpus_;
  std::vector<std::vector<bool>> possible_peers_;
  std::map<std::uintptr_t, std::size_t> pinned_;
  AccessHistory history_;
  std::uint64_t allocations_made_ = 0;
};

}  // namespace emulated
