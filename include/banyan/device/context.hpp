// Context: what a computation needs, passed explicitly. One per device and stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "banyan/device/cpu_stream.hpp"
#include "banyan/device/device.hpp"
#include "banyan/device/storage.hpp"

namespace banyan {

/// Library handles (oneDNN engine, cuDNN and cuBLAS handles...), created by a back end on first use.
class LibraryHandles {
 public:
  virtual ~LibraryHandles() = default;
};

class Context {
 public:
  /// Creates its own stream on `device`.
  explicit Context(Device& device, const std::string& stream_name = "compute");
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device& device() const { return *device_; }
  Stream& stream() const { return *stream_; }
  /// Enqueues a closure; CPU devices only.
  template <class Work>
  void run(Work&& work) {
    static_cast<CpuStream&>(*stream_).enqueue(std::forward<Work>(work));
  }
  /// Scratch memory, valid for work enqueued until the next call. Grows, never shrinks.
  void* workspace(std::size_t bytes);
  template <class T>
  T* workspace_of(std::int64_t count) {
    return static_cast<T*>(workspace(static_cast<std::size_t>(count) * sizeof(T)));
  }
  void synchronize() { stream_->synchronize(); }
  std::unique_ptr<LibraryHandles>& handles() { return handles_; }

 private:
  Device* device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Storage> workspace_;
  std::unique_ptr<LibraryHandles> handles_;
};

}  // namespace banyan
