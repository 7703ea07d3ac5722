// CPU devices joined by links of known cost, and pipes with random delays. A stream named "lane" takes
// latency + bytes / bandwidth for every copy, sleeping, so that many devices run at full modelled speed on
// two cores. Sending and receiving a message (an event's record and wait) delays the host thread for a random
// time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "banyan/parallel/link_cost.hpp"
#include "forwarding_device.hpp"

namespace banyan::parallel {

struct SlowBoxOptions {
  int devices = 2;
  bool asynchronous = true;
  unsigned stream_delay_us = 0;  ///< random, maximum, before each piece of a stream's work
  unsigned pipe_delay_us = 0;    ///< random, maximum, in each send and receive
  /// The cost of a copy from device b to device a; none: free.
  std::function<LinkCost(int a, int b)> cost;
};

inline void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class SlowDevice : public ForwardingDevice {
 public:
  SlowDevice(int ordinal, const SlowBoxOptions& options)
      : ForwardingDevice(ordinal, "cpu:" + std::to_string(ordinal),
                         {.threads = 1,
                          .asynchronous = options.asynchronous,
                          .max_delay_us = options.stream_delay_us,
                          .cores = {}}),
        options_(options) {}

  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<SlowStream>(*this, name);
  }

 private:
  class SlowStream : public ForwardingStream {
   public:
    SlowStream(SlowDevice& device, const std::string& name)
        : ForwardingStream(device, name),
          device_(device),
          is_lane_(name == "lane"),
          random_(static_cast<unsigned>(std::random_device{}())) {}
    void record(Event& event) override {
      hold_up();
      ForwardingStream::record(event);
    }
    void wait(const Event& event) override {
      hold_up();
      ForwardingStream::wait(event);
    }
    void copy(void* to, const void* from, std::size_t bytes) override {
      const ForwardingDevice* owner = is_lane_ && device_.options_.cost ? owner_of(from) : nullptr;
      if (owner != nullptr && owner != &device_) {
        const LinkCost cost = device_.options_.cost(device_.ordinal(), owner->ordinal());
        enqueue([seconds = cost.seconds(static_cast<double>(bytes))] { sleep_seconds(seconds); });
      }
      ForwardingStream::copy(to, from, bytes);
    }

   private:
    void hold_up() {
      const unsigned most = device_.options_.pipe_delay_us;
      if (most > 0 && random_() % 4 == 0)  // most messages pass immediately, which changes the order more
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % (most + 1)));
    }
    SlowDevice& device_;
    bool is_lane_;
    std::minstd_rand random_;
  };

  SlowBoxOptions options_;
};

inline std::vector<std::unique_ptr<Device>> slow_box(const SlowBoxOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < options.devices; ++i) devices.push_back(std::make_unique<SlowDevice>(i, options));
  return devices;
}

}  // namespace banyan::parallel
