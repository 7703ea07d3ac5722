#include "banyan/device/device.hpp"

#include "banyan/base/error.hpp"

namespace banyan {

void* Device::allocate(std::size_t bytes) {
  // Counted before it is asked for: two threads cannot both pass the limit.
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
  std::size_t peak = peak_.load();
  while (peak < before + bytes && !peak_.compare_exchange_weak(peak, before + bytes)) {
  }
  return data;
}

void Device::release(void* data, std::size_t bytes) noexcept {
  if (data == nullptr) return;
  raw_release(data);
  in_use_.fetch_sub(bytes);
}

}  // namespace banyan
