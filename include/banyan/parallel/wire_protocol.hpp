// WireProtocol: what the processes of a run say to each other besides a WireUplink's exchanges, on the same
// wire.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

/// Where process 0 serves the others it is so many seconds ahead of them in missing a process.
constexpr double kAfterTheFirst = 1;

/// For how many seconds nothing has come of a process.
struct Absence {
  Absence(double unheard = 0, double without_data = 0)  // NOLINT: mostly there is only silence
      : silent(unheard), stuck(without_data) {}
  double longest() const { return std::max(silent, stuck); }
  double silent;  ///< nothing was heard of it
  double stuck;   ///< it is heard of, but one of its devices waits for data of which nothing arrives
};

class WireProtocol {
 public:
  using Clock = std::chrono::steady_clock;
  using Silence = std::function<Absence(int process)>;

  virtual ~WireProtocol() = default;
  // All on the thread that owns the wire.
  /// Before the first step. `wake`: may be called on any thread when there is something to send.
  virtual void join(Wire& wire, std::function<void()> wake) = 0;
  /// Begins what is due; what has arrived was handed over by Wire::progress(). True: something was begun.
  /// Throws what ends the run.
  virtual bool step(Clock::time_point now, const Silence& silence) = 0;
  /// A process that the run can do without has ended (Wire::on_lost); `how` is for people.
  virtual void lost(int /*process*/, const std::string& /*how*/) {}
  /// The process whose work this one's depends on, where process 0 serves the others: another one is between
  /// them.
  virtual int server() const { return 0; }
  /// Does something wait for a message?
  virtual bool waits() const = 0;
  /// Nothing of this process is under way.
  virtual bool quiet() const = 0;
};

}  // namespace banyan::parallel
