// LinkProbe: the speed of the network between two processes, as a WireUplink's messages find it.
#pragma once

#include <functional>
#include <memory>

#include "banyan/parallel/wire_protocol.hpp"

namespace banyan::parallel {

struct NetworkSpeed {
  double latency_s = 0;  ///< one way, of a short message: median
  double there_bytes_per_s = 0, back_bytes_per_s = 0;
};

class LinkProbe : public WireProtocol {
 public:
  LinkProbe();
  ~LinkProbe() override;
  LinkProbe(const LinkProbe&) = delete;
  LinkProbe& operator=(const LinkProbe&) = delete;

  /// Both processes call it, with each other's number, and wait; `there` is from the lower number to the
  /// higher one. `check` is called now and then and may throw to end the wait.
  NetworkSpeed measure(int other, const std::function<void()>& check);

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  bool waits() const override;
  bool quiet() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan::parallel
