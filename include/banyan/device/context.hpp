// Context: what a computation needs to know, passed explicitly. One per device and stream.
#pragma once

#include <cstddef>
#include <memory>

#include "banyan/device/cpu_stream.hpp"
#include "banyan/device/device.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {

/// Library handles (oneDNN engine, cuDNN and cuBLAS handles...), made by a back end on first use.
class LibraryHandles {
 public:
  virtual ~LibraryHandles() = default;
};

class Context {
 public:
  /// Makes a stream of its own on `device`.
  explicit Context(Device& device, const std::string& stream_name = "compute");
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device& device() const { return *device_; }
  Stream& stream() const { return *stream_; }
  bool is_cuda() const { return device_->kind() == DeviceKind::cuda; }
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

/// Copies a host array into `to` (host order = logical order, converted to the tensor's layout) and waits.
template <class T>
void copy_from_host(Context& context, const T* from, Tensor& to);
/// Copies a tensor to a host array in logical order and waits.
template <class T>
void copy_to_host(Context& context, const Tensor& from, T* to);

}  // namespace banyan
