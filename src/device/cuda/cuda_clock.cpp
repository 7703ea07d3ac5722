#include <chrono>

#include "device/cuda/cuda_check.hpp"
#include "device/cuda/cuda_device.hpp"

namespace banyan {
namespace {

constexpr float kLongestMilliseconds = 1000;  // from the reference to the event that replaces it

std::int64_t host_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

CudaClock::~CudaClock() {
  for (const Pending& pending : pending_) static_cast<void>(cudaEventDestroy(pending.event));
  for (const cudaEvent_t event : free_) static_cast<void>(cudaEventDestroy(event));
  if (reference_ != nullptr) static_cast<void>(cudaEventDestroy(reference_));
}

cudaEvent_t CudaClock::take_event() {
  cudaEvent_t event = nullptr;
  if (free_.empty()) {
    cuda_check(cudaEventCreate(&event), "a stream's clock", "cudaEventCreate");
  } else {
    event = free_.back();
    free_.pop_back();
  }
  return event;
}

/// The host waits for the stream here, once.
void CudaClock::start(cudaStream_t stream) {
  cuda_check(cudaStreamSynchronize(stream), "a stream's clock", "cudaStreamSynchronize");
  reference_ = take_event();
  cuda_check(cudaEventRecord(reference_, stream), "a stream's clock", "cudaEventRecord");
  cuda_check(cudaEventSynchronize(reference_), "a stream's clock", "cudaEventSynchronize");
  reference_nanoseconds_ = host_nanoseconds();
}

void CudaClock::stamp(cudaStream_t stream, std::atomic<std::int64_t>& nanoseconds) {
  if (reference_ == nullptr) start(stream);
  settle();
  const cudaEvent_t event = take_event();
  if (cudaEventRecord(event, stream) != cudaSuccess) {
    static_cast<void>(cudaEventDestroy(event));
    return;  // the stream has failed: its next real call reports it
  }
  pending_.push_back({event, &nanoseconds});
}

void CudaClock::settle() {
  while (!pending_.empty()) {
    const Pending first = pending_.front();
    float milliseconds = 0;
    const cudaError_t status = cudaEventElapsedTime(&milliseconds, reference_, first.event);
    if (status != cudaSuccess) {
      // Not reached yet, or a fault that the stream's next real call finds again.
      static_cast<void>(cudaGetLastError());
      return;
    }
    pending_.pop_front();
    const auto at =
        reference_nanoseconds_ + static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
    first.nanoseconds->store(at, std::memory_order_relaxed);
    if (milliseconds < kLongestMilliseconds) {
      free_.push_back(first.event);
      continue;
    }
    free_.push_back(reference_);
    reference_ = first.event;
    reference_nanoseconds_ = at;
  }
}

}  // namespace banyan
