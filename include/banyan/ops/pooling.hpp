// Pooling with Caffe's windows: MAX clips to the image, AVE divides by the window clipped at input + pad or,
// on request, by the pixels inside.
#pragma once

#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

enum class PoolingMethod : std::uint8_t { maximum, average, stochastic };

/// 2-D windows. Input and output are (N, C, H, W) in the same layout and type, bf16 allowed on CPU devices.
struct PoolingGeometry {
  PoolingMethod method = PoolingMethod::maximum;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool counts_padding = true;  ///< average: padding is part of the divisor
};

/// maximum: mask (i32, like output) receives h * W + w of the first maximum. stochastic: with `training`,
/// samples proportionally to the values (philox by key, global sample, logical output element) and writes the
/// mask; otherwise sum(x^2)/sum(x). average: leaves the mask alone.
inline constinit Operator<void(const PoolingGeometry& geometry, const Tensor& input, bool training,
                               const PassKey& key, const SampleIndex& samples, Tensor& output, Tensor& mask)>
    pooling_forward{"pooling_forward"};
/// Overwrites grad_input. `mask` as written by the forward pass (maximum, stochastic). Gathers: a fixed order
/// of additions.
inline constinit Operator<void(const PoolingGeometry& geometry, const Tensor& grad_output, const Tensor& mask,
                               Tensor& grad_input)>
    pooling_backward{"pooling_backward"};

}  // namespace banyan::ops
