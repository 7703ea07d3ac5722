// Values of tensors on the host.
#pragma once

#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {

/// In logical order (Caffe's N x C x H x W), whatever the layout in memory.
struct Values {
  Shape shape;
  std::vector<double> values;
};

/// Waits for the device.
Values values_of(Context& context, const Tensor& tensor);
/// Throws runtime_failure unless the tensor's count is that of `values`. Waits for the device.
void set_values(Context& context, const std::vector<double>& values, Tensor& tensor);

}  // namespace banyan
