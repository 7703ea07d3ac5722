// CrossCorrelation (a branch for tracking): a Convolution whose weights are its second input, the same for
// all samples of a device. That input has as many values as the weights, num_output x C / group x kernel...,
// in their order. Blobs as a Convolution's: weights, which nothing reads, and bias.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/functions.hpp"
#include "convolution_base.hpp"

namespace banyan {
namespace {

class CrossCorrelationLayer : public WindowLayer {
 public:
  CrossCorrelationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WindowLayer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}) {}

  void read_settings() override { check_window_settings(); }

  void setup(const Blobs& inputs, const Blobs&) override {
    read_windows(inputs[0]->shape);
    traits_.layout = LayoutRule::contiguous;
    traits_.by_sample = false;
    geometry_.in_channels = inputs[0]->shape[axis_];
    geometry_.out_channels = settings().num_output();
    geometry_.group = settings().group();
    check_group(geometry_.in_channels, geometry_.out_channels);
    std::vector<std::int64_t> weight{geometry_.out_channels, geometry_.in_channels / geometry_.group};
    weight.insert(weight.end(), geometry_.kernel.begin(), geometry_.kernel.end());
    weight_ = Shape(weight);
    declare(weight_, settings().weight_filler());
    if (settings().bias_term()) declare(Shape{settings().num_output()}, settings().bias_filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    check_axes(*inputs[0]);
    check_channels(*inputs[0], geometry_.in_channels);
    Shape shape = inputs[0]->shape;
    if (inputs[1]->shape.count() != weight_.count())
      refuse("input ", quoted(inputs[1]->name), ", which is ", inputs[1]->shape.to_string(),
             ", must have as many values as the weights, ", weight_.to_string());
    shape.set_dim(axis_, settings().num_output());
    for (int k = 0; k < geometry_.spatial_axes() && !no_spatial_; ++k)
      shape.set_dim(axis_ + 1 + k, convolved_length(k, *inputs[0]));
    set_output(*outputs[0], shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    Tensor output = seen_by_operator(outputs[0]->data);
    convolution(context).forward(context, seen_by_operator(inputs[0]->data),
                                 inputs[1]->data.reshaped(weight_),
                                 parameters_.size() > 1 ? parameters_[1].value : none_, output);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor dy = seen_by_operator(outputs[0]->grad);
    if (parameters_.size() > 1 && parameters_[1].grad.defined()) {
      const ChannelView view = channel_view(dy);
      ops::scale_backward(context, none_, dy, {view.batch, view.channels, view.inner}, parameters_[1].grad);
    }
    if (propagate[0]) {
      Tensor dx = seen_by_operator(inputs[0]->grad);
      convolution(context).backward_data(context, dy, inputs[1]->data.reshaped(weight_), dx);
    }
    if (propagate[1]) {
      Tensor dw = inputs[1]->grad.reshaped(weight_);
      convolution(context).first_backward_weight(context, seen_by_operator(inputs[0]->data), dy, dw, none_);
    }
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return static_cast<double>(weight_.count(1)) * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  ops::Convolution& convolution(Context& context) {
    if (!convolution_) convolution_ = ops::make_convolution(context, geometry_, dtype());
    return *convolution_;
  }

  std::unique_ptr<ops::Convolution> convolution_;
  Shape weight_;
  Tensor none_;
};

const RegisterLayer<CrossCorrelationLayer> registered_cross_correlation(
    "CrossCorrelation", {"convolution whose weights are the second input", "convolution_param", {}});

}  // namespace
}  // namespace banyan
