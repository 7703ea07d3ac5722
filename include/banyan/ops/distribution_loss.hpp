// Losses over whole distributions; `Channels`, `partial`, `grad_loss` and `divisor` as in loss.hpp.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The entropy of probabilities p that are not below `threshold`; nothing before iteration `first` of a run.
struct Entropy {
  double threshold = 0;
  std::int64_t first = 0;
  std::int64_t passes = 1;  ///< of one iteration
};
/// partial[0]: the sum of -p log p. `draw`: the number of the pass, in device memory; null: first does not
/// count.
inline constinit Operator<void(const Tensor& p, const Entropy& entropy, const std::uint64_t* draw,
                               Tensor& partial)>
    entropy_forward{"entropy_forward"};
/// dx = -(1 + log p) * grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& p, const Entropy& entropy, const std::uint64_t* draw,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    entropy_backward{"entropy_backward"};

/// partial[0]: the sum of -t (log p - log t) over the elements whose target t is positive; partial[1]: the
/// number of positions.
inline constinit Operator<void(const Tensor& p, const Tensor& targets, const Channels& over, Tensor& partial)>
    distribution_loss_forward{"distribution_loss_forward"};
/// By the scores whose softmax p is: dx = (p * (sum of the position's targets) - t) * grad_loss[0] / max(1,
/// divisor[0]).
inline constinit Operator<void(const Tensor& p, const Tensor& targets, const Channels& over,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    distribution_loss_backward{"distribution_loss_backward"};

}  // namespace banyan::ops
