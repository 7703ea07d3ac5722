// Losses of an image that was made of another one (Hidden Two-Stream, Zhu et al. 2017).
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The loss of a difference x: weight * ((beta x)^2 + epsilon^2)^alpha.
struct Charbonnier {
  double alpha = 1, beta = 1, epsilon = 0.001;
};
/// Contiguous, N x C x ...; of the weights, which may have more channels, the first C count. Undefined
/// weights stand for ones.
struct WeightedDifference {
  Tensor x, weights;
};
/// sum (1, f64): of the losses.
inline constinit Operator<void(const WeightedDifference& what, const Charbonnier& how, Tensor& sum)>
    charbonnier_forward{"charbonnier_forward"};
/// dx = slope * scale[0], in the type of x.
inline constinit Operator<void(const WeightedDifference& what, const Charbonnier& how, const Tensor& scale,
                               Tensor& dx)>
    charbonnier_backward{"charbonnier_backward"};

/// Square windows whose sides have `size` pixels, `stride` apart from the first pixel on, as many as the map
/// needs to be covered; those that reach beyond it are cut off.
struct SimilarityWindows {
  std::int64_t size = 8, stride = 8;
  double c1 = 1e-5, c2 = 1e-5;
  std::int64_t along(std::int64_t length) const {
    return length > size ? (length - size + stride - 1) / stride + 1 : 1;
  }
};
/// Both contiguous, N x C x H x W.
struct ComparedImages {
  Tensor x, y;
};
/// 1 less the structural similarity (Wang et al. 2004) of each window of each channel, whose pixels weigh
/// weights[row] * weights[column] (weights: size, f64). found (4, windows, f64): the loss's slope in pixel x
/// is its weight times found[0] + found[1] * y + found[2] * x; found[3] is the loss.
inline constinit Operator<void(const ComparedImages& what, const SimilarityWindows& how,
                               const Tensor& weights, Tensor& found)>
    similarity_forward{"similarity_forward"};
/// dx = slope of the sum of the losses * scale[0], in the type of x.
inline constinit Operator<void(const ComparedImages& what, const SimilarityWindows& how,
                               const Tensor& weights, const Tensor& found, const Tensor& scale, Tensor& dx)>
    similarity_backward{"similarity_backward"};

}  // namespace banyan::ops
