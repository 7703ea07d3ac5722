// Convolution: y = x * w + b, N-dimensional, grouped and dilated.
//
// Input (batch axes..., C, spatial...): every axis before `axis` counts as batch. Weights (num_output, C /
// group, kernel...), bias (num_output). Several inputs, each with its own output, share one set of weights
// (Caffe).
#include "banyan/ops/convolution.hpp"

#include <google/protobuf/repeated_field.h>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

using Field = google::protobuf::RepeatedField<google::protobuf::uint32>;

class ConvolutionLayer : public Layer {
 public:
  ConvolutionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 1, -1, true},
               .layout = LayoutRule::channels_last,
               .storage = StorageRule::sixteen_bits,
               .backward_reads_outputs = false,
               .fuses_relu = ReluFusion::forward}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;
  double forward_flops(const Blobs& inputs, const Blobs& outputs) const override;
  ops::KernelChoices kernel_choices() const override {
    return convolution_ ? convolution_->kernel_choices() : ops::KernelChoices();
  }

 private:
  const caffe::ConvolutionParameter& settings() const { return parameter_.convolution_param(); }
  std::vector<std::int64_t> per_axis(const char* field, const Field& repeated, std::int64_t absent,
                                     bool has_h, bool has_w, std::int64_t h, std::int64_t w) const;
  void read_geometry(const Shape& input);
  void refuse_unsupported() const;
  Shape seen_by_operator(const Shape& shape) const;
  Tensor seen_by_operator(const Tensor& tensor) const;
  Tensor weight_for_operator(const Tensor& weight) const;
  const Tensor& bias() const { return parameters_.size() > 1 ? parameters_[1].value : none_; }

  int axis_ = 1;
  bool is_image_ = false;    ///< (N, C, H, W): the layout may be channels-last
  bool no_spatial_ = false;  ///< the channel is the last axis: the operator sees one spatial axis of length 1
  ops::ConvolutionGeometry geometry_;
  std::unique_ptr<ops::Convolution> convolution_;
  Tensor none_;
};

/// `field` once, once per spatial axis, or absent; or field_h and field_w for two spatial axes.
std::vector<std::int64_t> ConvolutionLayer::per_axis(const char* field, const Field& repeated,
                                                     std::int64_t absent, bool has_h, bool has_w,
                                                     std::int64_t h, std::int64_t w) const {
  const int axes = geometry_.spatial_axes();
  if (has_h || has_w) {
    if (!repeated.empty()) refuse("give either ", field, " or its _h and _w forms, not both");
    if (axes != 2) refuse("the _h and _w forms of ", field, " need 2 spatial axes; there are ", axes);
    if (absent < 0 && !(has_h && has_w)) refuse(field, " needs both its _h and _w forms");
    return {has_h ? h : absent, has_w ? w : absent};
  }
  if (repeated.empty()) {
    if (absent < 0) refuse("no ", field, " is given");
    return std::vector<std::int64_t>(static_cast<std::size_t>(axes), absent);
  }
  if (repeated.size() != 1 && repeated.size() != axes)
    refuse(field, " is given ", repeated.size(), " times; expected once or once for each of ", axes,
           " spatial axes");
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < axes; ++i) lengths.push_back(repeated.Get(repeated.size() == 1 ? 0 : i));
  return lengths;
}

void ConvolutionLayer::refuse_unsupported() const {
  if (settings().relu()) refuse("convolution_param.relu (a fused ReLU) is not supported; add a ReLU layer");
  if (settings().num_output() == 0) refuse("num_output must be positive");
  if (settings().group() == 0) refuse("group must be positive");
}

void ConvolutionLayer::read_geometry(const Shape& input) {
  const auto& s = settings();
  axis_ = input.canonical_axis(s.axis());
  const int spatial = input.axes() - axis_ - 1;
  no_spatial_ = spatial == 0;
  is_image_ = input.axes() == 4 && axis_ == 1;
  if (!is_image_) traits_.layout = LayoutRule::contiguous;
  geometry_.kernel.assign(static_cast<std::size_t>(spatial), 1);
  if (!no_spatial_)
    geometry_.kernel = per_axis("kernel_size", s.kernel_size(), -1, s.has_kernel_h(), s.has_kernel_w(),
                                s.kernel_h(), s.kernel_w());
  geometry_.stride =
      per_axis("stride", s.stride(), 1, s.has_stride_h(), s.has_stride_w(), s.stride_h(), s.stride_w());
  geometry_.pad = per_axis("pad", s.pad(), 0, s.has_pad_h(), s.has_pad_w(), s.pad_h(), s.pad_w());
  geometry_.dilation = per_axis("dilation", s.dilation(), 1, s.has_dilation_h(), s.has_dilation_w(),
                                s.dilation_h(), s.dilation_w());
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (geometry_.kernel[at] < 1) refuse("kernel_size must be positive");
    if (geometry_.stride[at] < 1) refuse("stride must be positive");
    if (geometry_.dilation[at] < 1) refuse("dilation must be positive");
  }
  if (no_spatial_) geometry_.kernel = geometry_.stride = geometry_.dilation = {1}, geometry_.pad = {0};
  geometry_.group = s.group();
  geometry_.in_channels = input[axis_];
  geometry_.out_channels = s.num_output();
  if (geometry_.in_channels % geometry_.group != 0 || geometry_.out_channels % geometry_.group != 0)
    refuse("group ", geometry_.group, " must divide both the ", geometry_.in_channels,
           " input channels and num_output ", geometry_.out_channels);
}

void ConvolutionLayer::setup(const Blobs& inputs, const Blobs&) {
  refuse_unsupported();
  read_geometry(inputs[0]->shape);
  std::vector<std::int64_t> weight{geometry_.out_channels, geometry_.in_channels / geometry_.group};
  if (!no_spatial_) weight.insert(weight.end(), geometry_.kernel.begin(), geometry_.kernel.end());
  declare(Shape(weight), settings().weight_filler());
  if (settings().bias_term()) declare(Shape{geometry_.out_channels}, settings().bias_filler());
}

void ConvolutionLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = inputs[i]->shape;
    if (shape.axes() <= axis_ || shape.axes() != axis_ + 1 + (no_spatial_ ? 0 : geometry_.spatial_axes()))
      refuse("input ", quoted(inputs[i]->name), " has ", shape.axes(), " axes; expected ",
             axis_ + 1 + geometry_.spatial_axes());
    if (shape[axis_] != geometry_.in_channels)
      refuse("input ", quoted(inputs[i]->name), " has ", shape[axis_], " channels; the weights are for ",
             geometry_.in_channels);
    shape.set_dim(axis_, geometry_.out_channels);
    for (int k = 0; k < geometry_.spatial_axes() && !no_spatial_; ++k) {
      const std::int64_t length = geometry_.output_length(k, shape[axis_ + 1 + k]);
      if (length < 1)
        refuse("input ", quoted(inputs[i]->name), " of shape ", inputs[i]->shape.to_string(),
               " is smaller than the kernel: spatial axis ", k, " would have the output length ", length);
      shape.set_dim(axis_ + 1 + k, length);
    }
    const bool channels_last =
        is_image_ && (options().channels_last || inputs[i]->layout == Layout::channels_last);
    set_output(*outputs[i], shape, channels_last ? Layout::channels_last : Layout::contiguous);
  }
}

Shape ConvolutionLayer::seen_by_operator(const Shape& shape) const {
  std::vector<std::int64_t> dims{shape.count(0, axis_)};
  for (int i = axis_; i < shape.axes(); ++i) dims.push_back(shape[i]);
  if (no_spatial_) dims.push_back(1);
  return Shape(dims);
}

Tensor ConvolutionLayer::seen_by_operator(const Tensor& tensor) const {
  return axis_ == 1 && !no_spatial_ ? tensor : tensor.reshaped(seen_by_operator(tensor.shape()));
}

Tensor ConvolutionLayer::weight_for_operator(const Tensor& weight) const {
  return no_spatial_ ? weight.reshaped(Shape{weight.shape()[0], weight.shape()[1], 1}) : weight;
}

void ConvolutionLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  if (!convolution_) convolution_ = ops::make_convolution(context, geometry_, dtype());
  const Tensor weight = weight_for_operator(parameters_[0].value);
  const bool fused = convolution_->fuse_relu(pass.fused.output);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor output = seen_by_operator(outputs[i]->data);
    convolution_->forward(context, seen_by_operator(inputs[i]->data), weight, bias(), output);
    if (!fused) ops::relu_forward(context, output, pass.fused.output.slope, output);
  }
}

void ConvolutionLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                                const Blobs& inputs) {
  Context& context = *pass.context;
  Tensor no_bias;
  Tensor& grad_bias = parameters_.size() > 1 ? parameters_[1].grad : no_bias;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!outputs[i]->grad.defined()) {  // a side output that no loss depends on
      if (propagate[i]) ops::fill(context, inputs[i]->grad, 0);
      continue;
    }
    const Tensor grad_output = seen_by_operator(outputs[i]->grad);
    if (parameters_[0].grad.defined()) {
      Tensor grad_weight = weight_for_operator(parameters_[0].grad);
      convolution_->backward_weight(context, seen_by_operator(inputs[i]->data), grad_output, grad_weight,
                                    grad_bias);
    } else if (grad_bias.defined()) {
      const ChannelView view = channel_view(grad_output);
      const ops::Broadcast over = view.channels_last
                                      ? ops::Broadcast{view.batch * view.inner, view.channels, 1}
                                      : ops::Broadcast{view.batch, view.channels, view.inner};
      ops::scale_backward(context, none_, grad_output, over, grad_bias);
    }
    if (propagate[i]) {
      Tensor grad_input = seen_by_operator(inputs[i]->grad);
      convolution_->backward_data(context, grad_output, weight_for_operator(parameters_[0].value),
                                  grad_input);
    }
  }
}

double ConvolutionLayer::forward_flops(const Blobs&, const Blobs& outputs) const {
  double per_value = static_cast<double>(geometry_.in_channels) / static_cast<double>(geometry_.group);
  for (const std::int64_t k : geometry_.kernel) per_value *= static_cast<double>(k);
  double sum = 0;
  for (const Blob* output : outputs) sum += per_value * static_cast<double>(output->shape.count());
  return sum;
}

const RegisterLayer<ConvolutionLayer> registered(
    "Convolution", {"N-dimensional convolution, grouped and dilated",
                    "convolution_param",
                    {"num_output: 2 kernel_size: 3 weight_filler { value: 1 }"}});

}  // namespace
}  // namespace banyan
