// CUDA devices, streams and events, using only the CUDA runtime API.
//
// Every entry point that needs it makes its device the calling thread's current one and leaves it that way:
// nothing in the back end relies on the thread's current device, so nothing restores it.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "banyan/device/device.hpp"

namespace banyan {

/// `replica` counts earlier devices on the same GPU; only the accounting distinguishes their memory.
class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, int replica, Math math);

  void make_current() override;
  std::unique_ptr<Stream> create_stream(const std::string& name) override;
  std::unique_ptr<Event> create_event() override;
  /// Pinned for every GPU of the process.
  std::shared_ptr<void> allocate_host(std::size_t bytes) override;

 protected:
  void* raw_allocate(std::size_t bytes) override;
  /// Waits until the GPU has finished everything that may still use the memory (cudaFree does that).
  void raw_release(void* data) noexcept override;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaDevice& device);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void synchronize() override;
  bool done() override;
  cudaEvent_t native() const { return event_; }

 private:
  CudaDevice* device_;
  cudaEvent_t event_ = nullptr;
};

class CudaGraph final : public ExecutableGraph {
 public:
  /// `captured` stays the caller's.
  CudaGraph(Device& device, cudaGraph_t captured);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void replay(Stream& stream) override;

 private:
  Device* device_;
  cudaGraphExec_t executable_ = nullptr;
};

/// Times of points in a stream's work, from events. An event's time is known relative to an earlier one's;
/// the first is matched with the host's clock when the stream is idle, and the reference moves on once a
/// second, so that the single precision of the driver's milliseconds is enough (0.1 us).
class CudaClock {
 public:
  CudaClock() = default;
  ~CudaClock();
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;
  /// Records an event on `stream`; its time is written by a later call of this or of settle().
  void stamp(cudaStream_t stream, std::atomic<std::int64_t>& nanoseconds);
  /// Writes the times of all events that have been reached.
  void settle();

 private:
  struct Pending {
    cudaEvent_t event;
    std::atomic<std::int64_t>* nanoseconds;
  };
  cudaEvent_t take_event();
  void start(cudaStream_t stream);
  std::deque<Pending> pending_;
  std::vector<cudaEvent_t> free_;
  cudaEvent_t reference_ = nullptr;
  std::int64_t reference_nanoseconds_ = 0;
};

/// Non-blocking: no implicit order with the default stream.
class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, std::string name);
  ~CudaStream() override;
  /// `event` must have been made by a device on the same GPU.
  void record(Event& event) override;
  void wait(const Event& event) override;
  /// Also where it throws the stream's work is done, unless the wait fails twice.
  void synchronize() override;
  /// Between GPUs without peer access the driver stages the bytes through the host.
  void copy(void* to, const void* from, std::size_t bytes) override;
  void zero(void* to, std::size_t bytes) override;
  std::unique_ptr<ExecutableGraph> capture(const std::function<void()>& work) override;
  /// As stamp() in banyan/device/stamp.hpp. Called by the thread that enqueues. Captured work gets no times.
  void stamp(std::atomic<std::int64_t>& nanoseconds);
  cudaStream_t native() const { return stream_; }

 private:
  std::string name_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaClock> clock_;  ///< made by the first stamp
};

}  // namespace banyan
