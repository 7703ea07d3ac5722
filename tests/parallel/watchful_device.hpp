// A CPU device whose copies are slow and one of which cannot be enqueued, as if a driver refused it. It
// records memory that is freed while a copy from or to it is still pending.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "banyan/base/error.hpp"
#include "forwarding_device.hpp"

namespace banyan::parallel {

/// Shared by the devices of one test.
class CopyWatch {
 public:
  /// The copy with this number, counted from 0 over all devices, fails.
  explicit CopyWatch(int failing) : failing_(failing) {}
  int freed_too_early() const { return freed_too_early_; }
  bool failed() const { return copies_ > failing_; }

  void begin_copy() {
    if (copies_++ == failing_) runtime_failure("this copy fails");
  }
  void enqueued(const void* to, const void* from) {
    const std::lock_guard<std::mutex> lock(mutex_);
    under_way_.push_back({static_cast<const char*>(to), static_cast<const char*>(from)});
  }
  void ended(const void* to, const void* from) {
    const std::lock_guard<std::mutex> lock(mutex_);
    under_way_.remove({static_cast<const char*>(to), static_cast<const char*>(from)});
  }
  void freed(const void* block, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto* first = static_cast<const char*>(block);
    const auto inside = [&](const char* byte) { return byte >= first && byte < first + bytes; };
    for (const Copy& copy : under_way_) freed_too_early_ += inside(copy.to) || inside(copy.from) ? 1 : 0;
  }

 private:
  struct Copy {
    const char *to, *from;
    bool operator==(const Copy&) const = default;
  };
  const int failing_;
  std::atomic<int> copies_{0}, freed_too_early_{0};
  std::mutex mutex_;
  std::list<Copy> under_way_;
};

class WatchfulDevice : public ForwardingDevice {
 public:
  WatchfulDevice(int ordinal, CopyWatch& watch)
      : ForwardingDevice(ordinal, "watchful:" + std::to_string(ordinal),
                         {.threads = 1, .asynchronous = true, .cores = {}}),
        watch_(watch) {}

  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<WatchfulStream>(*this, name);
  }
  std::shared_ptr<void> allocate_host(std::size_t bytes) override {
    const std::shared_ptr<void> block = ForwardingDevice::allocate_host(bytes);
    return {block.get(), [block, bytes, &watch = watch_](void*) { watch.freed(block.get(), bytes); }};
  }

 private:
  class WatchfulStream : public ForwardingStream {
   public:
    WatchfulStream(WatchfulDevice& device, const std::string& name)
        : ForwardingStream(device, name), watch_(device.watch_) {}
    void copy(void* to, const void* from, std::size_t bytes) override {
      watch_.begin_copy();
      watch_.enqueued(to, from);
      enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
      ForwardingStream::copy(to, from, bytes);
      enqueue([&watch = watch_, to, from] { watch.ended(to, from); });
    }

   private:
    CopyWatch& watch_;
  };
  void raw_release(void* data) noexcept override {
    watch_.freed(data, 1);  // copies begin at the first byte of a tensor
    ForwardingDevice::raw_release(data);
  }

  CopyWatch& watch_;
};

}  // namespace banyan::parallel
