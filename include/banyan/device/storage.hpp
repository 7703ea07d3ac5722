// Storage: one allocation on one device.
#pragma once

#include <cstddef>

namespace banyan {

class Device;

/// Allocates, and releases what it allocated.
class Storage {
 public:
  Storage(Device& device, std::size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device& device() const { return *device_; }

 private:
  Device* device_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace banyan
