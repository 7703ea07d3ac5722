// Losses that compare each element with a target; `partial`, `grad_loss` and `divisor` as in loss.hpp.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// d: the difference of x and the target.
struct TargetLoss {
  enum class Kind : std::uint8_t {
    sigmoid_cross_entropy,  ///< log(1 + exp(x)) - x * target: x is the logit of a probability
    absolute,               ///< |d|, with slope 0 at 0
    squared,                ///< d^2 / 2
    smooth_absolute,        ///< (sigma d)^2 / 2 where |d| < 1 / sigma^2, else |d| - 1 / (2 sigma^2)
  };
  Kind kind = Kind::absolute;
  double sigma = 1;
  IgnoreLabel ignore = {};  ///< targets that do not count
};
/// What is compared; all alike. An undefined weight stands for ones.
struct Targets {
  Tensor x, target;
  Tensor inside;   ///< multiplies d (not for sigmoid_cross_entropy)
  Tensor outside;  ///< multiplies the loss
};
/// partial (2, f64): the sum of the losses, and the number of targets that count.
inline constinit Operator<void(const Targets& what, const TargetLoss& loss, Tensor& partial)>
    target_loss_forward{"target_loss_forward"};
/// The loss of each position: the sum over its channels.
inline constinit Operator<void(const Targets& what, const TargetLoss& loss, const Channels& over,
                               Tensor& losses)>
    target_losses{"target_losses"};
/// dx = sign * (slope of the loss in x) * grad_loss[0] / max(1, divisor[0]); 0 for targets that do not count.
/// Where the loss is one of d, sign -1 gives the gradient of the target.
inline constinit Operator<void(const Targets& what, const TargetLoss& loss, double sign,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    target_loss_backward{"target_loss_backward"};

/// partial (2, f64): the sum of log(cosh(|x| - 1)), whose targets are 1 and -1, whichever is nearer; and the
/// number of values.
inline constinit Operator<void(const Tensor& x, Tensor& partial)> quantization_loss_forward{
    "quantization_loss_forward"};
/// dx = tanh(|x| - 1) * (x < 0 ? -1 : 1) * grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& x, const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    quantization_loss_backward{"quantization_loss_backward"};

}  // namespace banyan::ops
