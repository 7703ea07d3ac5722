#include "banyan/device/storage.hpp"

#include "banyan/device/device.hpp"

namespace banyan {

Storage::Storage(Device& device, std::size_t bytes)
    : device_(&device), bytes_(bytes), data_(device.allocate(bytes)) {}

Storage::~Storage() { device_->release(data_, bytes_); }

}  // namespace banyan
