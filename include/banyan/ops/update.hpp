// One solver step over a piece of the parameters: one sweep over weights, gradients and history.
#pragma once

#include <cmath>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

enum class UpdateRule : std::uint8_t { sgd, nesterov, sag, adagrad, rmsprop, adadelta, adam, adamw, lamb };
/// Adam and its relatives: two moments, corrected for their start at 0.
inline bool corrects_bias(UpdateRule rule) {
  return rule == UpdateRule::adam || rule == UpdateRule::adamw || rule == UpdateRule::lamb;
}

/// What all pieces share; changes between iterations.
struct UpdateValues {
  double gradient_scale = 1;  ///< clip factor / iter_size, applied first
  double rate = 0;            ///< learning rate
  double momentum = 0;        ///< also Adam's beta1, AdaDelta's momentum
  double momentum2 = 0;       ///< Adam's beta2
  double weight_decay = 1;    ///< multiplies the pieces' l2 and l1
  /// Bias correction: Adam's is root / rest (correct_bias).
  double correction_root = 1, correction_rest = 1;
  double cosine_share = 0;  ///< of an iteration's cosine in the running one (follow_cosine)
};
/// For Adam's step t, counted from 1. On the host, so that all devices use the same numbers.
inline void correct_bias(UpdateValues& values, std::int64_t t) {
  const auto steps = static_cast<double>(t);
  values.correction_root = std::sqrt(1 - std::pow(values.momentum2, steps));
  values.correction_rest = 1 - std::pow(values.momentum, steps);
}

/// A learning rate for each parameter by the norms |w| and |g| of its values and gradient (after
/// gradient_scale, before decay), in place of lr_mult: L = eta |w| / (|g| + decay |w|), 1 if a norm is 0.
/// NVIDIA's LARC (You, Gitman, Ginsburg 2017): eta x (1 - momentum). Intel's local_lr_auto: with decay.
/// NVIDIA's SAG: the history's norm |h| before the step in place of |g|.
/// NVIDIA's larc_turbo, with c the running cosine between gradient and history (follow_cosine): L - 0.9 c,
/// for SAG L (1 - 0.9 c).
struct LayerWiseRate {
  const double* squares = nullptr;  ///< |w|^2 and |g|^2 (before gradient_scale) or |h|^2, in device memory
  double eta = 0, decay = 0;        ///< squares == nullptr: off
  bool times_one_minus_momentum = false;
  bool clips = false;              ///< the rate is min(rate, L) instead of rate x L
  bool by_history = false;         ///< SAG
  const double* cosine = nullptr;  ///< c, in device memory; nullptr: no turbo
};

/// What stays constant for one piece.
struct UpdateStep {
  UpdateRule rule = UpdateRule::sgd;
  double lr_mult = 1;     ///< multiplies the learning rate
  double l2 = 0, l1 = 0;  ///< x weight_decay: the decay, added to the gradient
  double rms_decay = 0;
  double delta = 0;
  LayerWiseRate layer_wise = {};
  double decoupled =
      0;  ///< x weight_decay x rate: the share of each weight that sgd and sag take off, besides D
};
/// Computes the amount D by the rule, then weight -= D. `values` is in device memory (DeviceValue). adadelta,
/// adam, adamw and lamb use history2; lamb writes D of adamw at rate 1 to `direction` instead, which
/// follow_direction then uses. All tensors have the same dtype and count.
inline constinit Operator<void(const UpdateStep& step, const UpdateValues* values, Tensor& weight,
                               const Tensor& gradient, Tensor& history, Tensor& history2, Tensor& direction)>
    update_parameters{"update_parameters"};
/// weight -= rate x lr_mult x |w| / |d| x direction (You et al. 2020), 1 in place of |w| / |d| if one of them
/// is 0. `squares`: |w|^2 and |d|^2, of the whole parameter, in device memory.
inline constinit Operator<void(double lr_mult, const UpdateValues* values, const double* squares,
                               const Tensor& direction, Tensor& weight)>
    follow_direction{"follow_direction"};
/// c += cosine_share x (cosine - c), where the cosine is that between gradient and history, 0 if one of them
/// is. products (f64, 3): |g|^2, |h|^2 and their dot product g h.
inline constinit Operator<void(const UpdateValues* values, const Tensor& products, Tensor& cosine)>
    follow_cosine{"follow_cosine"};

}  // namespace banyan::ops
