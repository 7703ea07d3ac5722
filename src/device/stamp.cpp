#include "banyan/device/stamp.hpp"

#include <chrono>

#include "banyan/device/cpu_stream.hpp"
#include "banyan/device/cuda_devices.hpp"

namespace banyan {

void stamp(Stream& stream, std::atomic<std::int64_t>& nanoseconds) noexcept {
  try {
    if (stream.device().kind() == DeviceKind::cuda) {
      stamp_cuda_stream(stream, nanoseconds);
      return;
    }
    static_cast<CpuStream&>(stream).enqueue([&nanoseconds] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                        std::memory_order_relaxed);
    });
  } catch (...) {
    // A missing time in a trace must not end a run; the next real call reports what is wrong.
  }
}

}  // namespace banyan
