// What online instance matching keeps of samples (Xiao et al. 2017): a row for each class, and a queue of
// those without one. x has a row for each of the labels, which are a float tensor of integers.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// y = the label where it is an integer in [0, classes), else -1.
inline constinit Operator<void(const Tensor& labels, std::int64_t classes, Tensor& y)> known_labels{
    "known_labels"};
/// Row c of table = momentum * row c + (1 - momentum) * x[n] for each sample n of class c, in ascending order
/// of n.
inline constinit Operator<void(const Tensor& x, const Tensor& labels, double momentum, Tensor& table)>
    follow_rows{"follow_rows"};
/// ages (one for each class): 0 if the class has a sample, else 1 more than before.
inline constinit Operator<void(const Tensor& labels, Tensor& ages)> count_ages{"count_ages"};
/// Writes the rows of x with label -1 one after the other to the rows of `queue` from row tail[0] on, after
/// the last of which comes the first. tail is then where the next one goes.
inline constinit Operator<void(const Tensor& x, const Tensor& labels, Tensor& queue, Tensor& tail)>
    enqueue_rows{"enqueue_rows"};

}  // namespace banyan::ops
