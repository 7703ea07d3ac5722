#include "banyan/device/device.hpp"

#include "banyan/base/error.hpp"
#include "banyan/device/memory.hpp"

namespace banyan {
namespace {

std::atomic<std::size_t> all_in_use{0}, all_peak{0};

void raise_peak(std::atomic<std::size_t>& peak, std::size_t reached) {
  std::size_t before = peak.load();
  while (before < reached && !peak.compare_exchange_weak(before, reached)) {
  }
}

}  // namespace

MemoryUse memory_of_all_devices() { return {all_in_use.load(), all_peak.load()}; }

void reset_peak_of_all_devices() { all_peak.store(all_in_use.load()); }

std::unique_ptr<ExecutableGraph> Stream::capture(const std::function<void()>&) {
  runtime_failure(device().name(), ": work cannot be captured into a graph; only GPUs can do that");
}

void* Device::allocate(std::size_t bytes) {
  // Counted before it is allocated, so that two threads cannot both exceed the limit.
  const std::size_t before = in_use_.fetch_add(bytes);
  const std::size_t limit = limit_.load();
  const bool refused = limit != 0 && (bytes > limit || before > limit - bytes);
  void* data = refused ? nullptr : raw_allocate(bytes);
  if (data == nullptr) {
    in_use_.fetch_sub(bytes);
    const std::string limited = refused ? cat(", limit ", limit, " bytes") : std::string();
    runtime_failure("out of memory on ", name_, ": asked for ", bytes, " bytes with ", before,
                    " bytes in use", limited);
  }
  raise_peak(peak_, before + bytes);
  raise_peak(all_peak, all_in_use.fetch_add(bytes) + bytes);
  return data;
}

void Device::release(void* data, std::size_t bytes) noexcept {
  if (data == nullptr) return;
  raw_release(data);
  in_use_.fetch_sub(bytes);
  all_in_use.fetch_sub(bytes);
}

}  // namespace banyan
