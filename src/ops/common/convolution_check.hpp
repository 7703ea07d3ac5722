// Checks the shapes of a convolution's tensors once for both CPU implementations, which then use raw
// pointers.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// Throws a runtime failure unless input, weight and output fit the geometry and each other.
inline void check_convolution(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& weight,
                              const Tensor& output) {
  const int axes = geometry.spatial_axes();
  const Shape& in = input.shape();
  const Shape& out = output.shape();
  bool fits = in.axes() == axes + 2 && out.axes() == axes + 2 && in[0] == out[0] &&
              in[1] == geometry.in_channels && out[1] == geometry.out_channels;
  for (int axis = 0; fits && axis < axes; ++axis)
    fits = out[axis + 2] == geometry.output_length(axis, in[axis + 2]) && out[axis + 2] > 0;
  std::int64_t weights = geometry.out_channels * (geometry.in_channels / geometry.group);
  for (const std::int64_t length : geometry.kernel) weights *= length;
  if (!fits || weight.count() != weights || !weight.is_contiguous())
    runtime_failure("convolution: input ", in.to_string(), ", weight ", weight.shape().to_string(),
                    " and output ", out.to_string(), " do not match");
}

}  // namespace banyan::ops
