// Softmax, losses and accuracy. `Channels` sees contiguous memory as outer x channels x inner. Labels are
// float tensors (Caffe), outer x inner.
//
// A loss writes f64 `partial` sums of its device; the divisor is summed over the devices before use, so both
// stay on the device:
//   partial (2): sum of the unscaled loss, number of valid positions
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct Channels {
  std::int64_t outer, channels, inner;
};
struct IgnoreLabel {
  bool enabled = false;
  int label = 0;
};

inline constinit Operator<void(const Tensor& x, const Channels& over, Tensor& y)> softmax_forward{
    "softmax_forward"};
/// dx = y (dy - sum_c dy y).
inline constinit Operator<void(const Tensor& y, const Tensor& dy, const Channels& over, Tensor& dx)>
    softmax_backward{"softmax_backward"};
/// partial (2, f64): -log(max(p[label], FLT_MIN)) summed over the positions with a valid label, and the
/// number of these. noted (3, f64): the first label out of range as 1 + its sample, its position in the
/// sample, the label; written only where noted[0] is 0, so that a record stays until it is read and cleared.
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Channels& over,
                               const IgnoreLabel& ignore, Tensor& partial, Tensor& noted)>
    softmax_loss_forward{"softmax_loss_forward"};
/// dx = (p - [c == label]) * weight * grad_loss[0] / max(1, divisor[0]); ignored positions get 0. grad_loss:
/// the loss blob's gradient (1), divisor: f64 (1).
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Channels& over,
                               const IgnoreLabel& ignore, const Tensor& grad_loss, const Tensor& divisor,
                               Tensor& dx)>
    softmax_loss_backward{"softmax_loss_backward"};
/// difference = a - b; partial[0] = sum of squares / 2, partial[1] = 0.
inline constinit Operator<void(const Tensor& a, const Tensor& b, Tensor& difference, Tensor& partial)>
    euclidean_forward{"euclidean_forward"};
/// dx = sign * difference * grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& difference, double sign, const Tensor& grad_loss,
                               const Tensor& divisor, Tensor& dx)>
    euclidean_backward{"euclidean_backward"};
/// value[0] (float dtype) = numerator[index] / max(minimum, divisor[divisor_index]) of f64 tensors; 0 where
/// the divisor is 0 and minimum is 0.
struct Quotient {
  std::int64_t index, divisor_index;
  double minimum;
};
inline constinit Operator<void(const Tensor& numerator, const Tensor& divisor, const Quotient& what,
                               Tensor& value)>
    quotient{"quotient"};
/// counts (2 + 2 channels, f64): correct, counted, then per class correct and counted. Correct: fewer than
/// top_k other classes score >= the true one, or, if `least_wins`, <= it. noted as in softmax_loss_forward.
inline constinit Operator<void(const Tensor& scores, const Tensor& labels, const Channels& over,
                               const IgnoreLabel& ignore, int top_k, bool least_wins, Tensor& counts,
                               Tensor& noted)>
    accuracy_counts{"accuracy_counts"};

}  // namespace banyan::ops
