// Pooling with Caffe's windows: MAX clips to the image, AVE divides by the window clipped at input + pad or,
// on request, by the pixels inside.
#pragma once

#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

enum class PoolingMethod : std::uint8_t { maximum, average, stochastic };

/// 2-D windows. Input and output are (N, C, H, W) in the same layout and type, bf16 allowed.
struct PoolingGeometry {
  PoolingMethod method = PoolingMethod::maximum;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool counts_padding = true;  ///< average: padding is part of the divisor
};

/// A mask for maxima of which nothing but the gradient is wanted: u8 if the window has so few places, else
/// i32.
inline DType smallest_mask(const PoolingGeometry& geometry) {
  return geometry.kernel_h * geometry.kernel_w < 256 ? DType::u8 : DType::i32;
}

/// maximum: mask (like output) receives where the first maximum is: i32, h * W + w, or -1 in a window without
/// one; u8 (smallest_mask), its place in the window before that is clipped, or 255. stochastic: with
/// `training`, samples proportionally to the values (philox by key, global sample, logical output element)
/// and writes the mask, which is i32; otherwise sum(x^2)/sum(x). average: leaves the mask alone.
inline constinit Operator<void(const PoolingGeometry& geometry, const Tensor& input, bool training,
                               const PassKey& key, const SampleIndex& samples, Tensor& output, Tensor& mask)>
    pooling_forward{"pooling_forward"};
/// Overwrites grad_input. `mask` as written by the forward pass (maximum, stochastic). Gathers: a fixed order
/// of additions.
inline constinit Operator<void(const PoolingGeometry& geometry, const Tensor& grad_output, const Tensor& mask,
                               Tensor& grad_input)>
    pooling_backward{"pooling_backward"};

}  // namespace banyan::ops
