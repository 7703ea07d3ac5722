// Requests: what the user asks a run to do (stop, snapshot), and how all devices do it after the same
// iteration.
#pragma once

#include <cstdint>

#include "banyan/train/train.hpp"
#include "peers.hpp"

namespace banyan {

class Requests {
 public:
  /// `signals` may be nullptr: no requests.
  Requests(Peers& peers, SignalFlags* signals);
  /// Before an iteration sends anything: the first device reads what the user asks for. The others read it
  /// after this iteration's exchange, which comes after this write.
  void poll(std::int64_t iteration);
  /// The loss of all devices, exchanged together with the wishes of each process. Without other processes:
  /// the device's own loss.
  Tensor share(const Tensor& loss, std::int64_t iteration);
  /// The same on all devices. Called after the iteration's exchange of gradients. Wishes of other processes
  /// come from share(); reading them makes the host wait.
  Wishes of_everybody(std::int64_t iteration) const;

 private:
  Wishes of_process(std::int64_t iteration) const { return peers_.team().wishes[iteration % 2]; }
  Peers& peers_;
  SignalFlags* signals_;
  Tensor report_;  ///< f64 (3), only with other processes: loss, wish to stop, wish for a snapshot
};

}  // namespace banyan
