// The margin that samples of a run keep in common from the other classes (GlobalLSEMargin of caffe-windows):
// scores x (N x C), each sample's label, and what scores are multiplied by: `scale`, one for all or one for
// each sample.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// What is known about a sample, in rows of this many numbers: the score of its label (NaN without one), the
/// logarithm of the sum of e^(scale * score) over the other classes, divided by scale, the largest of their
/// scores, scale, and the label, or -1 if it is no class.
inline constexpr std::int64_t kMarginNumbers = 5;
/// noted: a wrong label, as in loss.hpp.
inline constinit Operator<void(const Tensor& x, const Tensor& labels, const Tensor& scale, Tensor& rows,
                               Tensor& noted)>
    margin_rows{"margin_rows"};
/// moved (1): the margin after a batch with these rows. With d the differences of a row's first two numbers:
/// where margin[0] is 0, the mean of all d, which then moves to the mean of those less than 0.1 from it, up
/// to 20 times, until it moves by less than 0.001; else 0.9 times margin[0] plus 0.1 times the mean of the d
/// less than 0.1 from it, or, if there are none, what becomes of the mean of all d by one such step. Without
/// rows, or if there is no finite mean, margin[0].
inline constinit Operator<void(const Tensor& rows, const Tensor& margin, Tensor& moved)> move_margin{
    "move_margin"};
/// y (5): scale, which is the mean of the rows' if that of the layer is undefined, the means of the rows'
/// first three numbers, of which the third counts as -1 at least, and margin[0]. Means of no rows are 0.
inline constinit Operator<void(const Tensor& rows, const Tensor& scale, const Tensor& margin, Tensor& y)>
    margin_statistics{"margin_statistics"};
/// y (N x C) = y - scale * margin[0] at the labels, if that margin is above 0.
inline constinit Operator<void(const Tensor& labels, const Tensor& scale, const Tensor& margin, Tensor& y)>
    subtract_margin{"subtract_margin"};
/// dscale = dscale - the sum of margin[0] * dy at the labels, if that margin is above 0.
inline constinit Operator<void(const Tensor& labels, const Tensor& margin, const Tensor& dy, Tensor& dscale)>
    subtract_margin_backward{"subtract_margin_backward"};

}  // namespace banyan::ops
