// The CPU stream: executes closures in order, inline or on its own thread.
#pragma once

#include <functional>
#include <utility>

#include "banyan/device/device.hpp"

namespace banyan {

class CpuStream : public Stream {
 public:
  /// Runs `work` after everything enqueued before it. Inline: now; exceptions are thrown here. Asynchronous:
  /// later, on the stream's thread; the first exception is thrown by the next synchronize(), and until then
  /// later work is dropped.
  template <class Work>
  void enqueue(Work&& work) {
    if (inline_)
      work();
    else
      push(std::function<void()>(std::forward<Work>(work)));
  }
  bool runs_inline() const { return inline_; }

 protected:
  CpuStream(Device& device, bool runs_inline) : Stream(device), inline_(runs_inline) {}
  virtual void push(std::function<void()> work) = 0;

 private:
  bool inline_;
};

}  // namespace banyan
