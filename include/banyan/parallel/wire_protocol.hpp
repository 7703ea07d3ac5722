// WireProtocol: what the processes of a run say to each other besides a WireUplink's exchanges, on the same
// wire.
#pragma once

#include <chrono>
#include <functional>

#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

class WireProtocol {
 public:
  using Clock = std::chrono::steady_clock;
  /// For how many seconds nothing was heard of a process.
  using Silence = std::function<double(int process)>;

  virtual ~WireProtocol() = default;
  // All on the thread that owns the wire.
  /// Before the first step. `wake`: may be called on any thread when there is something to send.
  virtual void join(Wire& wire, std::function<void()> wake) = 0;
  /// Begins what is due; what has arrived was handed over by Wire::progress(). True: something was begun.
  /// Throws what ends the run.
  virtual bool step(Clock::time_point now, const Silence& silence) = 0;
  /// Does something wait for a message?
  virtual bool waits() const = 0;
  /// Nothing of this process is under way.
  virtual bool quiet() const = 0;
};

}  // namespace banyan::parallel
