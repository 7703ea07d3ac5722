#include "convolution_base.hpp"

#include "banyan/ops/basic.hpp"

namespace banyan {

/// `field` once, once for each spatial axis, or absent; or field_h with field_w for two spatial axes.
std::vector<std::int64_t> WindowLayer::per_axis(const char* field, const Field& repeated, std::int64_t absent,
                                                bool has_h, bool has_w, std::int64_t h,
                                                std::int64_t w) const {
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

void WindowLayer::read_windows(const Shape& input) {
  const auto& s = settings();
  axis_ = input.canonical_axis(s.axis());
  const int spatial = input.axes() - axis_ - 1;
  no_spatial_ = spatial == 0;
  is_image_ = axis_ == 1 && input.axes() == 4;
  is_volume_ = axis_ == 1 && input.axes() == 5;
  if (!is_image_ && !is_volume_) traits_.layout = LayoutRule::contiguous;
  traits_.by_sample = axis_ > 0;
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
}

void WindowLayer::check_window_settings() const {
  if (settings().relu() || settings().fuse_type() != caffe::ConvolutionParameter::UNFUSED)
    refuse("relu and fuse_type are not supported; add a ReLU layer");
  require_num_output(settings().has_num_output(), settings().num_output());
  if (settings().group() == 0) refuse("group must be positive");
}

void WindowLayer::check_group(std::int64_t inputs, std::int64_t outputs) const {
  const std::int64_t group = geometry_.group;
  if (inputs % group != 0 || outputs % group != 0)
    refuse("group ", group, " must divide both the ", inputs, " input channels and num_output ", outputs);
}

void WindowLayer::check_channels(const Blob& input, std::int64_t channels) const {
  if (input.shape[axis_] != channels)
    refuse("input ", quoted(input.name), " has ", input.shape[axis_], " channels; the weights are for ",
           channels);
}

void WindowLayer::check_axes(const Blob& input) const {
  const int axes = axis_ + 1 + (no_spatial_ ? 0 : geometry_.spatial_axes());
  if (input.shape.axes() != axes)
    refuse("input ", quoted(input.name), " has ", input.shape.axes(), " axes; expected ", axes);
}

std::int64_t WindowLayer::convolved_length(int axis, const Blob& input) const {
  const std::int64_t length = geometry_.output_length(axis, input.shape[axis_ + 1 + axis]);
  if (length < 1)
    refuse("input ", quoted(input.name), " of shape ", input.shape.to_string(),
           " is smaller than the kernel: spatial axis ", axis, " would have the output length ", length);
  return length;
}

Shape WindowLayer::seen_by_operator(const Shape& shape) const {
  std::vector<std::int64_t> dims{shape.count(0, axis_)};
  for (int i = axis_; i < shape.axes(); ++i) dims.push_back(shape[i]);
  if (no_spatial_) dims.push_back(1);
  return Shape(dims);
}

Tensor WindowLayer::seen_by_operator(const Tensor& tensor) const {
  return axis_ == 1 && !no_spatial_ ? tensor : tensor.reshaped(seen_by_operator(tensor.shape()));
}

void ConvolutionBase::read_settings() {
  if (settings().relu()) refuse("convolution_param.relu (a fused ReLU) is not supported; add a ReLU layer");
  if (settings().fuse_type() != caffe::ConvolutionParameter::UNFUSED)
    refuse("fuse_type (BVLC's opencl branch) is not supported; add the layers that it stands for");
  if (settings().has_negative_slope()) refuse("negative_slope needs relu: true");
  if (settings().has_deformable_group()) refuse("deformable_group is for DeformableConvolution");
  require_num_output(settings().has_num_output(), settings().num_output());
  if (settings().group() == 0) refuse("group must be positive");
}

void ConvolutionBase::declare_parameters() {
  std::vector<std::int64_t> weight{geometry_.out_channels, geometry_.in_channels / geometry_.group};
  if (!no_spatial_) weight.insert(weight.end(), geometry_.kernel.begin(), geometry_.kernel.end());
  declare(Shape(weight), settings().weight_filler());
  if (settings().bias_term()) declare(Shape{settings().num_output()}, settings().bias_filler());
}

ops::Convolution& ConvolutionBase::convolution(Context& context) {
  if (!convolution_) {
    convolution_ = ops::make_convolution(context, geometry_, dtype());
    parameters_replaced();
  }
  return *convolution_;
}

void ConvolutionBase::parameters_replaced() {
  if (convolution_ && options().parameters_stay) convolution_->weights_stay();
}

Tensor ConvolutionBase::weight_for_operator(const Tensor& weight) const {
  return no_spatial_ ? weight.reshaped(Shape{weight.shape()[0], weight.shape()[1], 1}) : weight;
}

void ConvolutionBase::reshape(const Blobs& inputs, const Blobs& outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_axes(*inputs[i]);
    Shape shape = inputs[i]->shape;
    check_channels(*inputs[i], input_channels());
    shape.set_dim(axis_, settings().num_output());
    for (int k = 0; k < geometry_.spatial_axes() && !no_spatial_; ++k)
      shape.set_dim(axis_ + 1 + k, output_length(k, *inputs[i]));
    const bool channels_last = (is_image_ && options().channels_last) ||
                               (is_volume_ && options().volumes_last) ||
                               inputs[i]->layout == Layout::channels_last;
    set_output(*outputs[i], shape, channels_last ? Layout::channels_last : Layout::contiguous);
  }
}

ops::Broadcast ConvolutionBase::over_channels(const Tensor& tensor) {
  const ChannelView view = channel_view(tensor);
  if (view.channels_last) return {view.batch * view.inner, view.channels, 1};
  return {view.batch, view.channels, view.inner};
}

void ConvolutionBase::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                               const Blobs& inputs) {
  Context& context = *pass.context;
  Tensor no_bias;
  Tensor& grad_bias = parameters_.size() > 1 ? parameters_[1].grad : no_bias;
  // The first input's overwrite them, unless only one of the two is fresh: sharers may have one of them only.
  const auto clear_fresh = [&] {
    for (std::size_t slot = 0; slot < parameters_.size(); ++slot)
      if (pass.is_fresh(slot)) ops::fill(context, parameters_[slot].grad, 0);
  };
  bool first = pass.is_fresh(0) && (!grad_bias.defined() || pass.is_fresh(1));
  if (!first) clear_fresh();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!outputs[i]->grad.defined()) {  // a side output that no loss depends on
      if (propagate[i]) ops::fill(context, inputs[i]->grad, 0);
      continue;
    }
    const Tensor grad_output = seen_by_operator(outputs[i]->grad);
    if (parameters_[0].grad.defined()) {
      Tensor grad_weight = weight_for_operator(parameters_[0].grad);
      backward_parameters(context, seen_by_operator(inputs[i]->data), grad_output, first, grad_weight,
                          grad_bias);
      first = false;
    } else if (grad_bias.defined()) {
      ops::scale_backward(context, none_, grad_output, over_channels(grad_output), grad_bias);
    }
    if (propagate[i]) {
      Tensor grad_input = seen_by_operator(inputs[i]->grad);
      backward_input(context, grad_output, weight_for_operator(parameters_[0].value), grad_input);
    }
  }
  if (first) clear_fresh();
}

}  // namespace banyan
