// Losses over all pairs of samples, of one set or of two; `partial`, `grad_loss` and `divisor` as in
// loss.hpp. A sample's labels are a row of numbers.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Two samples with one label each are alike if it is the same, two with several if the product of their
/// labels is positive.
struct Hashing {
  double margin = 1, tradeoff = 0;
  std::int64_t labels = 1;  ///< of a sample
};
/// x (N rows), squares (N x N): the squared distances of its rows. partial[0]: over all pairs, half of their
/// squared distance if they are alike, else half of max(0, margin - it), summed and divided by N (N - 1);
/// plus tradeoff / N times the sum of ||x| - 1|. factors (N x N): see hashing_backward.
inline constinit Operator<void(const Tensor& x, const Tensor& squares, const Tensor& labels,
                               const Hashing& how, Tensor& factors, Tensor& partial)>
    hashing_loss{"hashing_loss"};
/// dx[i] = grad_loss[0] times (the sum over j of factors[i, j] (x[i] - x[j]), divided by N (N - 1), plus
/// tradeoff / N times 1 where |x| rises away from 1 or 0 towards larger x, else -1).
inline constinit Operator<void(const Tensor& x, const Tensor& factors, double tradeoff,
                               const Tensor& grad_loss, Tensor& dx)>
    hashing_backward{"hashing_backward"};

/// S, the product of the labels of two samples: they are alike if it is positive; below 0, or not below the
/// number of labels, the pair does not count.
struct LabelledPairs {
  double alike = 1;         ///< weight of a pair that is alike, also in the number of pairs
  bool continuous = false;  ///< each pair's loss times 4 S^2 / (S of a with itself, of b with itself), or 1
  double scale = 1;         ///< of the sum
  std::int64_t labels = 1;  ///< of a sample
  bool all = false;         ///< every pair counts
};
/// products (N x M) p of N samples a with M samples b: partial[0] = scale times the sum of log(1 + e^p), less
/// p where they are alike; partial[1]: the number of pairs. factors (N x M): the gradient of that sum by the
/// products, without the scale.
inline constinit Operator<void(const Tensor& products, const Tensor& a_labels, const Tensor& b_labels,
                               const LabelledPairs& how, Tensor& factors, Tensor& partial)>
    pairwise_loss{"pairwise_loss"};

}  // namespace banyan::ops
