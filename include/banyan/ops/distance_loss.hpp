// Losses of distances between vectors, one vector per sample; `partial`, `grad_loss` and `divisor` as in
// loss.hpp. Distances and what follows from them are f64, one per sample.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// squares[n] = the squared distance of vectors n of a and b.
inline constinit Operator<void(const Tensor& a, const Tensor& b, Tensor& squares)> squared_distances{
    "squared_distances"};
/// The loss of a pair of vectors, by their squared distance: half of it where `similar` says so (any number
/// of size 1 or more), or max(distance - near, 0)^2 / 2 with a `near` above 0; otherwise max(margin -
/// distance, 0)^2 / 2, or max(margin - squared distance, 0) / 2 if `legacy`. partial[0]: the sum. factors[n]:
/// see pair_backward.
struct PairMargin {
  double margin = 1;
  bool legacy = false;
  double near = 0;
};
inline constinit Operator<void(const Tensor& squares, const Tensor& similar, const PairMargin& margin,
                               Tensor& factors, Tensor& partial)>
    contrastive_loss{"contrastive_loss"};
/// similar[n] = 1 where the whole parts of a[n] and b[n] are equal, else 0.
inline constinit Operator<void(const Tensor& a, const Tensor& b, Tensor& similar)> equal_labels{
    "equal_labels"};
/// The loss of a triplet by the squared distances `near` and `far`, twice: what is positive of margin + near
/// - far (difference), of 1 - far / (near + margin) (ratio), or of 1 - e^far / (e^near + margin)
/// (exponential_ratio).
struct TripletMargin {
  enum class Kind : std::uint8_t { difference, ratio, exponential_ratio };
  Kind kind = Kind::difference;
  double margin = 1;
};
/// partial[0]: the sum of the losses. to_near[n] and to_far[n]: how fast twice the loss grows with near and
/// falls with far; 0 where it is 0.
inline constinit Operator<void(const Tensor& near, const Tensor& far, const TripletMargin& margin,
                               Tensor& to_near, Tensor& to_far, Tensor& partial)>
    triplet_loss{"triplet_loss"};
/// Of the anchors: da = (to_near[n] * (a - p) - to_far[n] * (a - n)) * grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& a, const Tensor& p, const Tensor& n, const Tensor& to_near,
                               const Tensor& to_far, const Tensor& grad_loss, const Tensor& divisor,
                               Tensor& da)>
    triplet_backward{"triplet_backward"};
/// Rows that are sets one after the other: an anchor, a positive, and the negatives. The loss of a set is
/// half the squared distance of the first two (`pairs`), plus those of the triplets with each negative.
struct TripletSets {
  std::int64_t size = 3;  ///< rows of a set, at least 3
  TripletMargin margin;
  bool pairs = true;
};
/// partial[0]: the sum of the losses. factors[n] (f64): how fast twice the sum grows with the squared
/// distance of row n from the anchor of its set.
inline constinit Operator<void(const Tensor& x, const TripletSets& sets, Tensor& factors, Tensor& partial)>
    triplet_sets_loss{"triplet_sets_loss"};
/// dx from the factors, times grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& x, const TripletSets& sets, const Tensor& factors,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    triplet_sets_backward{"triplet_sets_backward"};
/// dx = factors[n] * (a - b) * grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Tensor& factors,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    pair_backward{"pair_backward"};

/// y (M x N): the distances of each of M rows of x to each of N rows of w, as sums of squared differences, or
/// of their absolute values.
inline constinit Operator<void(const Tensor& x, const Tensor& w, bool absolute, std::int64_t length,
                               Tensor& y)>
    distances_to_rows{"distances_to_rows"};
/// Of absolute values: da (rows of a) = keep * da + sum over the rows of b of dy * sign(a - b), an element of
/// dy being at a's row * a_step + b's row * b_step.
struct RowPairs {
  std::int64_t length, a_step, b_step;
};
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Tensor& dy, const RowPairs& pairs,
                               double keep, Tensor& da)>
    absolute_distances_backward{"absolute_distances_backward"};

/// y[n] = products[n] / sqrt(a_squares[n] b_squares[n]), the cosine of the angle between vectors n; 0 where
/// one of them has no length. All but y are f64.
inline constinit Operator<void(const Tensor& products, const Tensor& a_squares, const Tensor& b_squares,
                               Tensor& y)>
    cosines{"cosines"};
/// da from dy; the arguments of both vectors exchanged: db.
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Tensor& products,
                               const Tensor& a_squares, const Tensor& b_squares, const Tensor& dy,
                               Tensor& da)>
    cosines_backward{"cosines_backward"};

}  // namespace banyan::ops
