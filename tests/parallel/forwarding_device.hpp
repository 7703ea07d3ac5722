// A CPU device that forwards to another, for tests that change some of its behaviour. It also knows which
// device's memory an address is in.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/device/device.hpp"

namespace banyan::parallel {

class ForwardingDevice : public Device {
 public:
  ForwardingDevice(int ordinal, const std::string& name, const CpuDeviceOptions& options)
      : Device(DeviceKind::cpu, ordinal, name, 1),
        asynchronous_(options.asynchronous),
        inner_(make_cpu_device(ordinal, options)) {}

  bool runs_inline() const override { return inner_->runs_inline(); }
  void make_current() override { inner_->make_current(); }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  std::shared_ptr<void> allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }

  /// The device whose memory contains `address`, if it is of this kind.
  static const ForwardingDevice* owner_of(const void* address) {
    const auto* byte = static_cast<const char*>(address);
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    for (const Block& block : blocks())
      if (byte >= block.data && byte < block.data + block.bytes) return block.owner;
    return nullptr;
  }

 protected:
  class ForwardingStream : public CpuStream {
   public:
    ForwardingStream(ForwardingDevice& device, const std::string& name)
        : CpuStream(device, !device.asynchronous_), inner_(device.inner_->create_stream(name)) {}
    void record(Event& event) override { inner_->record(event); }
    void wait(const Event& event) override { inner_->wait(event); }
    void synchronize() override { inner_->synchronize(); }
    void zero(void* to, std::size_t bytes) override { inner_->zero(to, bytes); }
    void copy(void* to, const void* from, std::size_t bytes) override { inner_->copy(to, from, bytes); }

   private:
    void push(std::function<void()> work) override {
      static_cast<CpuStream&>(*inner_).enqueue(std::move(work));
    }
    std::unique_ptr<Stream> inner_;
  };

  void* raw_allocate(std::size_t bytes) override {
    void* data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    blocks().push_back({this, static_cast<const char*>(data), bytes});
    return data;
  }
  void raw_release(void* data) noexcept override {
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    std::erase_if(blocks(), [data](const Block& block) { return block.data == data; });
    std::free(data);
  }

 private:
  struct Block {
    const ForwardingDevice* owner;
    const char* data;
    std::size_t bytes;
  };
  static std::mutex& blocks_mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::vector<Block>& blocks() {
    static std::vector<Block> all;
    return all;
  }

  bool asynchronous_;
  std::unique_ptr<Device> inner_;
};

}  // namespace banyan::parallel
