// A CPU device whose memory is damaged on its way to others, or never arrives, as on machines with broken
// peer-to-peer copies. Whatever goes through host memory is intact.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "forwarding_device.hpp"

namespace banyan::parallel {

/// Closed until opened; copies wait for it on a link that stalls.
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

class FaultyDevice : public ForwardingDevice {
 public:
  /// A stalling device's streams are asynchronous; `gate` lets its copies continue.
  FaultyDevice(int ordinal, Fault fault, std::shared_ptr<Gate> gate = nullptr)
      : ForwardingDevice(ordinal, "faulty:" + std::to_string(ordinal),
                         {.threads = 1, .asynchronous = fault == Fault::stalls, .cores = {}}),
        fault_(fault),
        gate_(std::move(gate)) {}

  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<FaultyStream>(*this, name);
  }

 private:
  class FaultyStream : public ForwardingStream {
   public:
    FaultyStream(FaultyDevice& device, const std::string& name)
        : ForwardingStream(device, name), device_(device) {}
    void copy(void* to, const void* from, std::size_t bytes) override {
      const ForwardingDevice* owner = owner_of(from);
      const bool crosses = owner != nullptr && owner != &device_;
      if (crosses && device_.fault_ == Fault::stalls) enqueue([gate = device_.gate_] { gate->pass(); });
      ForwardingStream::copy(to, from, bytes);
      if (crosses && device_.fault_ == Fault::damages && bytes > 256) static_cast<char*>(to)[256] ^= 1;
    }

   private:
    FaultyDevice& device_;
  };

  Fault fault_;
  std::shared_ptr<Gate> gate_;
};

}  // namespace banyan::parallel
