// Handles and descriptors of the emulated libraries: numbers that are not addresses, none used twice, so that
// one that was destroyed, or never created, is always detected.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "machine.hpp"

namespace emulated {

/// Neither an address of the process nor a device address; shared by all registries.
inline std::uintptr_t next_library_object() {
  static std::atomic<std::uintptr_t> last{0x00D7C00000000000};
  return last += 16;
}

/// The living objects of one kind. Created with new and never destroyed: programs may use the objects until
/// the process ends.
template <class T>
class Registry {
 public:
  /// `kind` appears in messages.
  explicit Registry(const char* kind) : kind_(kind) {}

  template <class Handle>
  Handle add(std::shared_ptr<T> object) {
    const Quiet quiet;
    const std::uintptr_t number = next_library_object();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      objects_[number] = std::move(object);
    }
    change_alive(+1);
    return reinterpret_cast<Handle>(number);
  }
  /// Null, after a complaint, if there is no such object.
  std::shared_ptr<T> find(const void* handle, const char* function) {
    {
      const Quiet quiet;
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto it = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
      if (it != objects_.end()) return it->second;
    }
    if (handle == nullptr)
      complain(function, ": a null ", kind_);
    else
      complain(function, ": a ", kind_, " that does not exist (destroyed?): ", handle);
    return nullptr;
  }
  /// Likewise; the object stays alive while in use.
  std::shared_ptr<T> remove(const void* handle, const char* function) {
    std::shared_ptr<T> object = find(handle, function);
    if (object == nullptr) return nullptr;
    const Quiet quiet;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      objects_.erase(reinterpret_cast<std::uintptr_t>(handle));
    }
    change_alive(-1);
    return object;
  }

 private:
  /// For the report on what a process leaves behind.
  static void change_alive(int by) {
    Machine& m = Machine::get();
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(m.mutex);
    m.handles += static_cast<std::uint64_t>(by);
  }
  const char* kind_;
  std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<T>> objects_;
};

/// Destroying a library's handle frees its device memory, which waits for the whole GPU.
inline void wait_before_destroying(const char* function, int device) {
  if (!capture_forbids(function)) wait_for_gpu(device);
}

/// Do the ranges share a byte? An empty range shares none.
inline bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(a), bt = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && at < bt + b_bytes && bt < at + a_bytes;
}

}  // namespace emulated
