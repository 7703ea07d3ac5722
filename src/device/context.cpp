#include "banyan/device/context.hpp"

namespace banyan {

Context::Context(Device& device, const std::string& stream_name)
    : device_(&device), stream_(device.create_stream(stream_name)) {}

Context::~Context() {
  try {
    stream_->synchronize();  // pending work may use the workspace and the handles
  } catch (...) {            // a failure that nobody waited for has nowhere to go
  }
  handles_.reset();
  workspace_.reset();
}

void* Context::workspace(std::size_t bytes) {
  if (workspace_ == nullptr || workspace_->bytes() < bytes) {
    stream_->synchronize();
    workspace_.reset();
    constexpr std::size_t kPage = 4096;
    workspace_ = std::make_unique<Storage>(*device_, (bytes + kPage - 1) / kPage * kPage);
  }
  return workspace_->data();
}

}  // namespace banyan
