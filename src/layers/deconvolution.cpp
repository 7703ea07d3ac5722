// Deconvolution: the gradient of a convolution with respect to its input, used as a layer (a transposed
// convolution, for learned upsampling), N-dimensional, grouped and dilated.
//
// Weights (C, num_output / group, kernel...), bias (num_output), as in Caffe. Each spatial axis becomes
// stride * (length - 1) + dilation * (kernel - 1) + 1 - 2 pad long.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/functions.hpp"
#include "convolution_base.hpp"

namespace banyan {
namespace {

class DeconvolutionLayer : public ConvolutionBase {
 public:
  using ConvolutionBase::ConvolutionBase;

  void setup(const Blobs& inputs, const Blobs&) override {
    read_windows(inputs[0]->shape);
    // The convolution leads from this layer's output to its input.
    geometry_.in_channels = settings().num_output();
    geometry_.out_channels = inputs[0]->shape[axis_];
    geometry_.group = settings().group();
    check_group(geometry_.out_channels, geometry_.in_channels);
    declare_parameters();
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor weight = weight_for_operator(parameters_[0].value);
    const ops::Activation& activation = pass.fused.output;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensor output = seen_by_operator(outputs[i]->data);
      convolution(context).backward_data(context, seen_by_operator(inputs[i]->data), weight, output);
      if (bias().defined())
        ops::scale_bias(context, output, none_, bias(), over_channels(output), activation, output);
      else
        ops::activate(context, activation, output);
    }
  }

  double forward_flops(const Blobs& inputs, const Blobs&) const override {
    double per_value = static_cast<double>(geometry_.in_channels) / static_cast<double>(geometry_.group);
    for (const std::int64_t k : geometry_.kernel) per_value *= static_cast<double>(k);
    double sum = 0;
    for (const Blob* input : inputs) sum += per_value * static_cast<double>(input->shape.count());
    return sum;
  }

 private:
  std::int64_t input_channels() const override { return geometry_.out_channels; }

  std::int64_t output_length(int axis, const Blob& input) const override {
    const std::int64_t length = input.shape[axis_ + 1 + axis];
    const std::int64_t made = geometry_.input_length(axis, length);
    if (length < 1 || made < 1)
      refuse("input ", quoted(input.name), " of shape ", input.shape.to_string(),
             " is too small for the padding: spatial axis ", axis, " would have the output length ", made);
    return made;
  }

  void backward_parameters(Context& context, const Tensor& input, const Tensor& grad_output, bool first,
                           Tensor& grad_weight, Tensor& grad_bias) override {
    Tensor no_bias;
    if (first)
      convolution(context).first_backward_weight(context, grad_output, input, grad_weight, no_bias);
    else
      convolution(context).backward_weight(context, grad_output, input, grad_weight, no_bias);
    if (!grad_bias.defined()) return;
    if (first) ops::fill(context, grad_bias, 0);
    ops::scale_backward(context, none_, grad_output, over_channels(grad_output), grad_bias);
  }
  void backward_input(Context& context, const Tensor& grad_output, const Tensor& weight,
                      Tensor& grad_input) override {
    convolution(context).forward(context, grad_output, weight, none_, grad_input);
  }
};

const RegisterLayer<DeconvolutionLayer> registered_deconvolution(
    "Deconvolution", {"transposed convolution, grouped and dilated",
                      "convolution_param",
                      {"num_output: 2 kernel_size: 3 stride: 2 weight_filler { value: 1 }"}});

}  // namespace
}  // namespace banyan
