#include "banyan/ops/convolution.hpp"

#include <array>

#include "banyan/ops/basic.hpp"

namespace banyan::ops {

namespace {

// Filled by static objects of the back ends in any order, so it is constant-initialized.
constinit std::array<ConvolutionFactory, 2> factories{};

void check_geometry(const ConvolutionGeometry& geometry) {
  const std::size_t axes = geometry.kernel.size();
  if (geometry.stride.size() != axes || geometry.pad.size() != axes || geometry.dilation.size() != axes)
    runtime_failure("convolution: kernel, stride, pad and dilation need one entry per spatial axis (", axes,
                    "), found ", geometry.stride.size(), ", ", geometry.pad.size(), " and ",
                    geometry.dilation.size());
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (geometry.kernel[axis] < 1 || geometry.stride[axis] < 1 || geometry.dilation[axis] < 1 ||
        geometry.pad[axis] < 0)
      bad_input("convolution: kernel, stride and dilation must be at least 1 and pad at least 0, found ",
                geometry.kernel[axis], ", ", geometry.stride[axis], ", ", geometry.dilation[axis], " and ",
                geometry.pad[axis], " on spatial axis ", axis);
  }
  if (geometry.group < 1 || geometry.in_channels < 1 || geometry.out_channels < 1 ||
      geometry.in_channels % geometry.group != 0 || geometry.out_channels % geometry.group != 0)
    bad_input("convolution: ", geometry.in_channels, " input and ", geometry.out_channels,
              " output channels cannot be divided into ", geometry.group, " groups");
}

}  // namespace

std::int64_t ConvolutionGeometry::output_length(int axis, std::int64_t input) const {
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t span = input + 2 * pad[a] - (dilation[a] * (kernel[a] - 1) + 1);
  // Not plain division, which rounds toward zero and would find room for a window that does not fit.
  return span < 0 ? 0 : span / stride[a] + 1;
}

std::int64_t ConvolutionGeometry::input_length(int axis, std::int64_t output) const {
  const auto a = static_cast<std::size_t>(axis);
  return stride[a] * (output - 1) + dilation[a] * (kernel[a] - 1) + 1 - 2 * pad[a];
}

void Convolution::first_backward_weight(Context& context, const Tensor& input, const Tensor& grad_output,
                                        Tensor& grad_weight, Tensor& grad_bias) {
  fill(context, grad_weight, 0);
  if (grad_bias.defined()) fill(context, grad_bias, 0);
  backward_weight(context, input, grad_output, grad_weight, grad_bias);
}

std::unique_ptr<Convolution> make_convolution(Context& context, const ConvolutionGeometry& geometry,
                                              DType dtype) {
  check_geometry(geometry);
  const ConvolutionFactory factory = factories[static_cast<std::size_t>(context.device().kind())];
  if (factory == nullptr) runtime_failure("convolution has no implementation for ", context.device().name());
  return factory(context, geometry, dtype);
}

void define_convolution(DeviceKind kind, ConvolutionFactory factory) {
  factories[static_cast<std::size_t>(kind)] = factory;
}

}  // namespace banyan::ops
