// Convolution: oneDNN, own kernels where they are faster, or im2col + GEMM (f64) on CPU; cuDNN on CUDA.
#pragma once

#include <memory>
#include <vector>

#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/kernel_choices.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// All vectors have one entry per spatial axis. Weights are (out_channels, in_channels / group, kernel...) in
/// logical order, contiguous.
struct ConvolutionGeometry {
  std::vector<std::int64_t> kernel, stride, pad, dilation;
  std::int64_t group = 1, in_channels = 0, out_channels = 0;
  int spatial_axes() const { return static_cast<int>(kernel.size()); }
  /// floor((in + 2 pad - (dilation (k - 1) + 1)) / stride) + 1
  std::int64_t output_length(int axis, std::int64_t input) const;
  /// stride (out - 1) + dilation (k - 1) + 1 - 2 pad: the shortest input with this output
  std::int64_t input_length(int axis, std::int64_t output) const;
};

/// One layer's convolution: keeps plans (primitives, descriptors) for the shapes it has seen. Input (N,
/// in_channels, spatial...) and output (N, out_channels, spatial...) may have either layout; an empty batch
/// is allowed and contributes nothing. Both may be bf16 while weights and bias are f32.
class Convolution {
 public:
  virtual ~Convolution() = default;
  /// Those made so far; empty if they follow from shapes alone.
  virtual KernelChoices kernel_choices() const { return {}; }
  /// From now on forward() ends with this activation. False: it cannot, and the caller must run it.
  virtual bool fuse_activation(const Activation& activation) { return !activation.on(); }
  /// The weights keep their values until this is called again: forward() and backward_data() may keep them in
  /// an order of their own instead of converting them in every call.
  virtual void weights_stay() {}
  /// output = input * weight (+ bias, (out_channels), where defined)
  virtual void forward(Context& context, const Tensor& input, const Tensor& weight, const Tensor& bias,
                       Tensor& output) = 0;
  virtual void backward_data(Context& context, const Tensor& grad_output, const Tensor& weight,
                             Tensor& grad_input) = 0;
  /// Adds to grad_weight and, where defined, grad_bias.
  virtual void backward_weight(Context& context, const Tensor& input, const Tensor& grad_output,
                               Tensor& grad_weight, Tensor& grad_bias) = 0;
  /// The same where these hold nothing yet: overwrites them.
  virtual void first_backward_weight(Context& context, const Tensor& input, const Tensor& grad_output,
                                     Tensor& grad_weight, Tensor& grad_bias);
};

/// Throws a runtime failure for anything the device cannot do (more than 3 spatial axes on CUDA, ...).
std::unique_ptr<Convolution> make_convolution(Context& context, const ConvolutionGeometry& geometry,
                                              DType dtype);
/// The plain reference: im2col + GEMM, any number of spatial axes, either layout, all types, CPU only.
std::unique_ptr<Convolution> make_reference_convolution(const ConvolutionGeometry& geometry);

using ConvolutionFactory = std::unique_ptr<Convolution> (*)(Context&, const ConvolutionGeometry&, DType);
void define_convolution(DeviceKind kind, ConvolutionFactory factory);

}  // namespace banyan::ops
