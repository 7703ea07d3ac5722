// Requests: what the user asks a run to do (stop, snapshot), and how all devices come to do it after the same
// iteration.
#pragma once

#include <cstdint>

#include "banyan/train/train.hpp"
#include "peers.hpp"

namespace banyan {

class Requests {
 public:
  /// `signals` may be nullptr: then nobody asks for anything.
  Requests(Peers& peers, SignalFlags* signals);
  /// Before an iteration sends anything: the first device reads what the user asks for. The others read it
  /// after this iteration's exchange, which comes after this write.
  void poll(std::int64_t iteration);
  /// The loss of all devices and, along with it, what each process wishes. Without other processes: the
  /// device's own loss.
  Tensor share(const Tensor& loss, std::int64_t iteration);
  /// The same on all devices. After the iteration's exchange of gradients; of other processes share() has
  /// told, and reading that makes the host wait.
  Wishes of_everybody(std::int64_t iteration) const;

 private:
  Wishes of_process(std::int64_t iteration) const { return peers_.team().wishes[iteration % 2]; }
  Peers& peers_;
  SignalFlags* signals_;
  Tensor report_;  ///< f64 (3), only with other processes: loss, wish to stop, wish for a snapshot
};

}  // namespace banyan
