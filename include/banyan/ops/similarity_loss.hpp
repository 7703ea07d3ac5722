// Losses of how alike two vectors are; `partial`, `grad_loss` and `divisor` as in loss.hpp. What belongs to a
// pair of vectors is f64, one per position: `own_a`, `own_b` and `other` are what the gradients of the loss
// consist of, da = own_a * a + other * b, db = own_b * b + other * a.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// partial[0]: the sum of 1 - (2 products + 1) / (a_squares + b_squares + 1), 1 less the coefficient of Dice;
/// partial[1]: their number. `own` is that of both vectors.
inline constinit Operator<void(const Tensor& products, const Tensor& a_squares, const Tensor& b_squares,
                               Tensor& own, Tensor& other, Tensor& partial)>
    dice_loss{"dice_loss"};
/// partial[0]: the sum of 1 - products / sqrt(a_squares b_squares), 1 less the cosine, which is 0, without a
/// gradient, where one of them has no length; partial[1]: their number.
inline constinit Operator<void(const Tensor& products, const Tensor& a_squares, const Tensor& b_squares,
                               Tensor& own_a, Tensor& own_b, Tensor& other, Tensor& partial)>
    cosine_loss{"cosine_loss"};
/// da = (own[position] * a + other[position] * b) * grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Tensor& own, const Tensor& other,
                               const Channels& over, const Tensor& grad_loss, const Tensor& divisor,
                               Tensor& da)>
    likeness_backward{"likeness_backward"};

}  // namespace banyan::ops
