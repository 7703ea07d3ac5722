// The angular margin of SphereFace (Liu et al. 2017): scores of samples against unit vectors of classes, of
// which the score of the sample's own class is made smaller; and that of L-Softmax (Liu et al. 2016), where
// classes' vectors w have any length and scores are |w| times as large.
//
// With c the cosine of the angle t between sample x and its class, and k such that t lies between k pi / m
// and (k + 1) pi / m, psi(c) = (-1)^k cos(m t) - 2 k, which is c for m = 1 and below it otherwise. The score
// is |x| (psi(c) + lambda c) / (1 + lambda).
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// lambda after `first` + draw + 1 passes: base (1 + gamma passes)^-power, at least `least`.
struct MarginDecay {
  double base = 1, gamma = 0, power = 1, least = 0;
  std::int64_t first = 0;
};
/// lambda (f64, 1); draw: a number in device memory that stands for this pass.
inline constinit Operator<void(const MarginDecay& decay, const std::uint64_t* draw, Tensor& lambda)>
    margin_lambda{"margin_lambda"};

/// Of rows whose squared lengths (N, f64) are given: inverse[d] = 1 / length; steps[d] the same, but of a
/// length of at least `least`.
inline constinit Operator<void(const Tensor& squares, double least, Tensor& inverse, Tensor& steps)>
    invert_lengths{"invert_lengths"};

/// y (M x N), the products of samples and unit vectors, gets the margin at each sample's label. squares (M,
/// f64): the samples' squared lengths. slopes and lengths (M, f64): the score's derivatives by x.w and, apart
/// from the part by way of x.w, by x in multiples of x; plain (M, f64): the score without a margin. A sample
/// of length 0 keeps its score. noted: a wrong label, as in loss.hpp.
/// With inverse (N), 1 / |w| of each class, y are the products with w (L-Softmax), and plain (M) is, times 1
/// / |w|^2, the score's derivative by w in multiples of w, apart from the part by way of x.w, with the
/// opposite sign.
inline constinit Operator<void(const Tensor& squares, const Tensor& labels, int margin, const Tensor& lambda,
                               const Tensor& inverse, Tensor& y, Tensor& slopes, Tensor& lengths,
                               Tensor& plain, Tensor& noted)>
    add_margin{"add_margin"};
/// dz = dy, times slopes[i] at the label of sample i.
inline constinit Operator<void(const Tensor& dy, const Tensor& labels, const Tensor& slopes, Tensor& dz)>
    scale_at_labels{"scale_at_labels"};
/// along[d] = the sum over the samples of dz times the scores without a margin: y, or plain at the labels. An
/// undefined y: over the labels only.
inline constinit Operator<void(const Tensor& dz, const Tensor& y, const Tensor& labels, const Tensor& plain,
                               Tensor& along)>
    sum_along_classes{"sum_along_classes"};
/// dw[d] (N x K) -= w[d] * along[d] * inverse[d] * steps[d].
inline constinit Operator<void(const Tensor& w, const Tensor& along, const Tensor& inverse,
                               const Tensor& steps, Tensor& dw)>
    subtract_along_rows{"subtract_along_rows"};
/// dx (M x K) += x[i] * lengths[i] * dy at the label of sample i.
inline constinit Operator<void(const Tensor& dy, const Tensor& labels, const Tensor& lengths, const Tensor& x,
                               Tensor& dx)>
    add_along_samples{"add_along_samples"};

}  // namespace banyan::ops
