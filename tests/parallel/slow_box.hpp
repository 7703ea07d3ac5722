// CPU devices joined by links of known cost, and pipes that are late by chance. A stream named "lane" takes
// latency + bytes / bandwidth for every copy, asleep, so that many devices run at full modelled speed on two
// cores. Sending and receiving a message (an event's record and wait) holds the host thread up for a random
// time.
#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/device/device.hpp"
#include "banyan/parallel/link_cost.hpp"

namespace banyan::parallel {

struct SlowBoxOptions {
  int devices = 2;
  bool asynchronous = true;
  unsigned stream_delay_us = 0;  ///< random, at most, before each piece of a stream's work
  unsigned pipe_delay_us = 0;    ///< random, at most, in each send and receive
  /// What a copy from device b to device a costs; none: nothing.
  std::function<LinkCost(int a, int b)> cost;
};

inline void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class SlowDevice : public Device {
 public:
  SlowDevice(int ordinal, const SlowBoxOptions& options)
      : Device(DeviceKind::cpu, ordinal, "cpu:" + std::to_string(ordinal), 1),
        options_(options),
        inner_(make_cpu_device(ordinal, {.threads = 1,
                                         .asynchronous = options.asynchronous,
                                         .max_delay_us = options.stream_delay_us,
                                         .cores = {}})) {}

  void make_current() override { inner_->make_current(); }
  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<SlowStream>(*this, name);
  }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  std::shared_ptr<void> allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }

 private:
  class SlowStream : public CpuStream {
   public:
    SlowStream(SlowDevice& device, const std::string& name)
        : CpuStream(device, !device.options_.asynchronous),
          device_(device),
          inner_(device.inner_->create_stream(name)),
          is_lane_(name == "lane"),
          random_(static_cast<unsigned>(std::random_device{}())) {}
    void record(Event& event) override {
      hold_up();
      inner_->record(event);
    }
    void wait(const Event& event) override {
      hold_up();
      inner_->wait(event);
    }
    void synchronize() override { inner_->synchronize(); }
    void zero(void* to, std::size_t bytes) override { inner_->zero(to, bytes); }
    void copy(void* to, const void* from, std::size_t bytes) override {
      const int owner = is_lane_ && device_.options_.cost ? owner_of(from) : -1;
      if (owner >= 0 && owner != device_.ordinal()) {
        const double seconds =
            device_.options_.cost(device_.ordinal(), owner).seconds(static_cast<double>(bytes));
        enqueue([seconds] { sleep_seconds(seconds); });
      }
      inner_->copy(to, from, bytes);
    }

   private:
    void push(std::function<void()> work) override {
      static_cast<CpuStream&>(*inner_).enqueue(std::move(work));
    }
    void hold_up() {
      const unsigned most = device_.options_.pipe_delay_us;
      if (most > 0 && random_() % 4 == 0)  // most messages pass at once: that shifts the order more
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % (most + 1)));
    }
    SlowDevice& device_;
    std::unique_ptr<Stream> inner_;
    bool is_lane_;
    std::minstd_rand random_;
  };

  struct Block {
    int owner;
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
  static int owner_of(const void* address) {
    const auto* byte = static_cast<const char*>(address);
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    for (const Block& block : blocks())
      if (byte >= block.data && byte < block.data + block.bytes) return block.owner;
    return -1;
  }
  void* raw_allocate(std::size_t bytes) override {
    void* data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    blocks().push_back({ordinal(), static_cast<const char*>(data), bytes});
    return data;
  }
  void raw_release(void* data) noexcept override {
    const std::lock_guard<std::mutex> lock(blocks_mutex());
    std::erase_if(blocks(), [data](const Block& block) { return block.data == data; });
    std::free(data);
  }

  SlowBoxOptions options_;
  std::unique_ptr<Device> inner_;
};

inline std::vector<std::unique_ptr<Device>> slow_box(const SlowBoxOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < options.devices; ++i) devices.push_back(std::make_unique<SlowDevice>(i, options));
  return devices;
}

}  // namespace banyan::parallel
