// A CPU device whose memory is damaged on its way to others, or never arrives, as on machines with broken
// peer-to-peer copies. What goes through host memory is whole.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/device/device.hpp"

namespace banyan::parallel {

/// Closed until opened; what copies wait for on a link that stalls.
class Gate {
 public:
  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

enum class Fault { damages, stalls };

class FaultyDevice : public Device {
 public:
  /// A stalling device's streams are asynchronous; `gate` lets its copies go on.
  FaultyDevice(int ordinal, Fault fault, std::shared_ptr<Gate> gate = nullptr)
      : Device(DeviceKind::cpu, ordinal, "faulty:" + std::to_string(ordinal), 1),
        fault_(fault),
        gate_(std::move(gate)),
        inner_(
            make_cpu_device(ordinal, {.threads = 1, .asynchronous = fault == Fault::stalls, .cores = {}})) {}

  void make_current() override {}
  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<FaultyStream>(*this, name);
  }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  std::shared_ptr<void> allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }

 private:
  class FaultyStream : public CpuStream {
   public:
    FaultyStream(FaultyDevice& device, const std::string& name)
        : CpuStream(device, device.fault_ == Fault::damages),
          device_(device),
          inner_(device.inner_->create_stream(name)) {}
    void record(Event& event) override { inner_->record(event); }
    void wait(const Event& event) override { inner_->wait(event); }
    void synchronize() override { inner_->synchronize(); }
    void zero(void* to, std::size_t bytes) override { inner_->zero(to, bytes); }
    void copy(void* to, const void* from, std::size_t bytes) override {
      const bool crosses = is_elsewhere(from);
      if (crosses && device_.fault_ == Fault::stalls) enqueue([gate = device_.gate_] { gate->pass(); });
      inner_->copy(to, from, bytes);
      if (crosses && device_.fault_ == Fault::damages && bytes > 256) static_cast<char*>(to)[256] ^= 1;
    }

   private:
    void push(std::function<void()> work) override {
      static_cast<CpuStream&>(*inner_).enqueue(std::move(work));
    }
    bool is_elsewhere(const void* address) const {
      const std::lock_guard<std::mutex> lock(blocks_mutex());
      for (const Block& block : blocks())
        if (address >= block.data && address < block.data + block.bytes) return block.owner != &device_;
      return false;
    }
    FaultyDevice& device_;
    std::unique_ptr<Stream> inner_;
  };

  struct Block {
    const FaultyDevice* owner;
    char* data;
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
  void* raw_allocate(std::size_t bytes) override {
    void* data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    blocks().push_back({this, static_cast<char*>(data), bytes});
    return data;
  }
  void raw_release(void* data) noexcept override {
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    std::erase_if(blocks(), [data](const Block& block) { return block.data == data; });
    std::free(data);
  }

  Fault fault_;
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<Device> inner_;
};

}  // namespace banyan::parallel
