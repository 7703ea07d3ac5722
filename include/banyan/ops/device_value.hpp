// DeviceValue: a small struct in device memory, for numbers that change between iterations. Kernels get its
// address instead of the numbers, so a launch captured into a graph reads the current ones.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct SmallBytes {
  static constexpr std::size_t kMost = 64;
  unsigned char byte[kMost];
};
/// to[0 ... count) = bytes. They travel as a launch argument, so no host memory has to stay unchanged.
inline constinit Operator<void(const SmallBytes& bytes, std::size_t count, void* to)> write_bytes{
    "write_bytes"};

template <class T>
class DeviceValue {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= SmallBytes::kMost);

 public:
  explicit DeviceValue(Device& device) : storage_(device, sizeof(T)) {}
  /// Work enqueued on `context`'s stream from now on reads `value`. Nothing waits.
  void write(Context& context, const T& value) {
    SmallBytes bytes{};
    std::memcpy(bytes.byte, &value, sizeof(T));
    write_bytes(context, bytes, sizeof(T), storage_.data());
  }
  /// In device memory; the address never changes.
  const T* get() const { return static_cast<const T*>(storage_.data()); }

 private:
  Storage storage_;
};

}  // namespace banyan::ops
