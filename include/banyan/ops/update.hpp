// One solver step over a piece of the parameters: one sweep over weights, gradients and history.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

enum class UpdateRule : std::uint8_t { sgd, nesterov, adagrad, rmsprop, adadelta, adam };

struct UpdateStep {
  UpdateRule rule = UpdateRule::sgd;
  double gradient_scale = 1;  ///< clip factor / iter_size, applied first
  double l2 = 0, l1 = 0;      ///< weight decay x decay_mult, added to the gradient
  double rate = 0;            ///< learning rate x lr_mult
  double momentum = 0;        ///< also Adam's beta1, AdaDelta's momentum
  double momentum2 = 0;       ///< Adam's beta2
  double rms_decay = 0;
  double delta = 0;
  std::int64_t step = 1;  ///< Adam's t, from 1
};
/// Computes the amount D by the rule, then weight -= D. Only adadelta and adam use history2. All have the
/// same dtype and count.
inline constinit Operator<void(const UpdateStep& step, Tensor& weight, const Tensor& gradient,
                               Tensor& history, Tensor& history2)>
    update_parameters{"update_parameters"};

}  // namespace banyan::ops
