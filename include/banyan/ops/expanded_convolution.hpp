// A depthwise convolution and the 1 x 1 convolution before it as one operator, on CPU devices.
//
// Such a pair begins the blocks of MobileNet-v2 (Sandler et al. 2018, "inverted residuals"): the first
// expands the channels, by six times there, and only the second reads what it makes. Here that is made a few
// rows at a time, which stay in the L2 cache.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// What is computed before a depthwise convolution: end(weight * input + bias).
struct Expansion {
  Tensor weight;   ///< (channels, input's channels, 1, 1)
  Tensor bias;     ///< (channels); undefined: 0
  Activation end;  ///< no ELU
};

/// Can a CPU device compute such a pair? `geometry`: of the depthwise convolution.
bool can_expand(const ConvolutionGeometry& geometry);
/// Bytes of an expanded image from which on it does so faster than one convolution after the other. Depends
/// on the processor only.
std::int64_t expansion_that_pays();

/// `input` (N, C, H, W) and `output` are channels-last and f32, `weight` and `bias` (undefined: 0) are those
/// of the depthwise convolution, which ends with `end` (no ELU).
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input,
                               const Expansion& expansion, const Tensor& weight, const Tensor& bias,
                               const Activation& end, Tensor& output)>
    expand_and_convolve{"expand_and_convolve"};

}  // namespace banyan::ops
