// Exchange: how a layer communicates with its replicas on the other devices. Implemented by the device tree's
// statistics lane.
#pragma once

#include <cstdint>

#include "banyan/device/context.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {

/// Identifies a meeting of all devices; both ends of every link compare it.
struct Ticket {
  const char* layer = "";  ///< outlives the exchange
  const char* phase = "";  ///< "forward", "backward", "divisor"; a literal
};

enum class Merge : std::uint8_t {
  sum,      ///< elementwise sum of f64 messages
  moments,  ///< ops::merge_moments of f64 (1 + 2 C) messages
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;  ///< 0 is the first device of the list
  virtual int devices() const = 0;
  /// Merges `message` (f64, the same count on every device) over the devices of this one's group of
  /// `group_size` neighbours in rank order (0: all), in a fixed order; the result is bit-identical on every
  /// member. Stream-ordered on `context`: the host does not wait for the device. If it throws, others may
  /// still read `message` until all threads of the group have ended.
  virtual void all_reduce(Context& context, Tensor& message, Merge merge, int group_size,
                          const Ticket& ticket) = 0;
};

}  // namespace banyan
