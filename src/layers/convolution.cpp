// Convolution: y = x * w + b, N-dimensional, grouped and dilated.
//
// Input (batch axes..., C, spatial...): every axis before `axis` counts as batch. Weights (num_output, C /
// group, kernel...), bias (num_output). One set of weights serves several inputs, each with its own output
// (Caffe).
//
// DepthwiseConvolution and ConvolutionDepthwise are a Convolution whose group is the number of channels, with
// the same weights. The branches with the first name write `group`, those with the second do not; either may
// be left out or written here. Both use num_output, bias_term, the fillers, and kernel, pad, stride and
// dilation in either form.
#include "banyan/ops/expanded_convolution.hpp"
#include "banyan/ops/functions.hpp"
#include "convolution_base.hpp"

namespace banyan {
namespace {

class ConvolutionLayer : public ConvolutionBase {
 public:
  using ConvolutionBase::ConvolutionBase;

  void setup(const Blobs& inputs, const Blobs&) override {
    read_windows(inputs[0]->shape);
    geometry_.in_channels = inputs[0]->shape[axis_];
    geometry_.out_channels = settings().num_output();
    geometry_.group = group(geometry_.in_channels);
    check_group(geometry_.in_channels, geometry_.out_channels);
    declare_parameters();
    const std::vector<std::int64_t> ones{1, 1}, zeros{0, 0};
    const bool one_image = is_image_ && inputs.size() == 1;
    traits_.pointwise = one_image && geometry_.group == 1 && geometry_.kernel == ones &&
                        geometry_.stride == ones && geometry_.pad == zeros;
    traits_.fuses_pointwise = one_image && dtype() == DType::f32 && ops::can_expand(geometry_);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (pass.fused.expansion.on()) return forward_expanded(context, pass.fused, outputs[0]->data);
    const Tensor weight = weight_for_operator(parameters_[0].value);
    const bool fused = convolution(context).fuse_activation(pass.fused.output);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensor output = seen_by_operator(outputs[i]->data);
      convolution(context).forward(context, seen_by_operator(inputs[i]->data), weight, bias(), output);
      if (!fused) ops::activate(context, pass.fused.output, output);
    }
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    double per_value = static_cast<double>(geometry_.in_channels) / static_cast<double>(geometry_.group);
    for (const std::int64_t k : geometry_.kernel) per_value *= static_cast<double>(k);
    double sum = 0;
    for (const Blob* output : outputs) sum += per_value * static_cast<double>(output->shape.count());
    return sum;
  }

 protected:
  virtual std::int64_t group(std::int64_t) const { return settings().group(); }

 private:
  void forward_expanded(Context& context, const Fused& fused, Tensor& output) {
    const auto& [input, its_weight, its_bias, its_end] = fused.expansion;
    const ops::Expansion expansion{its_weight->value, its_bias == nullptr ? none_ : its_bias->value, its_end};
    const bool ends = fused.output.kind != ops::Activation::Kind::elu;
    ops::expand_and_convolve(context, geometry_, *input, expansion, parameters_[0].value, bias(),
                             ends ? fused.output : ops::Activation(), output);
    if (!ends) ops::activate(context, fused.output, output);
  }

  std::int64_t input_channels() const override { return geometry_.in_channels; }

  std::int64_t output_length(int axis, const Blob& input) const override {
    return convolved_length(axis, input);
  }

  void backward_parameters(Context& context, const Tensor& input, const Tensor& grad_output, bool first,
                           Tensor& grad_weight, Tensor& grad_bias) override {
    if (first)
      convolution(context).first_backward_weight(context, input, grad_output, grad_weight, grad_bias);
    else
      convolution(context).backward_weight(context, input, grad_output, grad_weight, grad_bias);
  }
  void backward_input(Context& context, const Tensor& grad_output, const Tensor& weight,
                      Tensor& grad_input) override {
    convolution(context).backward_data(context, grad_output, weight, grad_input);
  }
};

class DepthwiseLayer : public ConvolutionLayer {
 public:
  using ConvolutionLayer::ConvolutionLayer;

 private:
  std::int64_t group(std::int64_t channels) const override {
    if (settings().has_group() && settings().group() != channels)
      refuse("group ", settings().group(), " is not the number of channels, ", channels,
             "; leave it out or use a Convolution");
    return channels;
  }
};

const RegisterLayer<ConvolutionLayer> registered_convolution(
    "Convolution", {"N-dimensional convolution, grouped and dilated",
                    "convolution_param",
                    {"num_output: 2 kernel_size: 3 weight_filler { value: 1 }"}});

const LayerInfo depthwise{"Convolution whose group is the number of channels",
                          "convolution_param",
                          {"num_output: 8 kernel_size: 3 weight_filler { value: 1 }"}};
const RegisterLayer<DepthwiseLayer> registered_depthwise("DepthwiseConvolution", depthwise);
const RegisterLayer<DepthwiseLayer> registered_second_name("ConvolutionDepthwise", depthwise);

}  // namespace
}  // namespace banyan
