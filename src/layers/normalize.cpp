// Normalize: vectors of length 1, times a learned scale. With norm_param (SSD, NVIDIA) the vectors are the
// channels at each position, or with across_spatial (the default) whole samples, and the scale is one number,
// or with channel_shared: false one per channel; with fix_scale (PixelNet) it does not learn. Without
// norm_param there is no scale, and they are whole samples (yjxiong), or with normalize_param (caffe-windows)
// the channels at each position; then a second output may hold the lengths, which have a gradient with
// bp_norm. eps is added to the squared length.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class NormalizeLayer : public Layer {
 public:
  NormalizeLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 1, parameter.has_normalize_param() ? 2 : 1},
               .layout = LayoutRule::follows,
               .backward_reads_outputs = false,
               .differentiable_outputs = parameter.normalize_param().bp_norm() ? 2 : 1}) {}

  void read_settings() override {
    if (!by_channels()) return;
    const caffe::ChannelNormalizeParameter& channels = parameter_.normalize_param();
    if (parameter_.has_norm_param()) refuse("norm_param and normalize_param exclude each other");
    if (channels.normalize_type() != "L2")
      refuse("normalize_type ", quoted(channels.normalize_type()),
             " is not supported: lengths are those of L2");
    if (channels.fix_gradient()) refuse("fix_gradient of normalize_param is not supported");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    if (!parameter_.has_norm_param()) return;
    caffe::FillerParameter filler = settings().scale_filler();
    if (!settings().has_scale_filler()) filler.set_value(1);
    Parameter& scale = declare(settings().channel_shared() ? Shape{} : Shape{inputs[0]->shape[1]}, filler);
    if (settings().fix_scale()) scale.forced_mult = scale.lr_mult = scale.decay_mult = 0;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() < 2 || (scaled() && !settings().channel_shared() && input[1] != parameters_[0].shape[0]))
      refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(), " does not fit the ",
             scaled() ? parameters_[0].shape.count() : 0, " scales");
    const bool whole = !by_channels() && (!scaled() || settings().across_spatial());
    const bool channels_last = inputs[0]->layout == Layout::channels_last;
    const std::int64_t channels = input[1], pixels = input.count(2);
    if (whole)
      over_ = {input[0], channels * pixels, 1};
    else
      over_ = channels_last ? ops::Channels{input[0] * pixels, channels, 1}
                            : ops::Channels{input[0], channels, pixels};
    if (!scaled() || settings().channel_shared())
      scale_over_ = {1, 1, input.count()};
    else
      scale_over_ = channels_last ? ops::Broadcast{input[0] * pixels, channels, 1}
                                  : ops::Broadcast{input[0], channels, pixels};
    set_output(*outputs[0], input, inputs[0]->layout);
    if (outputs.size() == 1) return;
    Shape lengths = input;
    lengths.set_dim(1, 1);
    set_output(*outputs[1], lengths, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    ensure(context, squares_, Shape{over_.outer * over_.inner}, DType::f64);
    ops::dot_products(context, x, x, over_, by_channels() ? 1e-6 : settings().eps(), squares_);
    ops::divide_by_norm(context, x, squares_, over_, y);
    if (scaled()) ops::scale_bias(context, y, parameters_[0].value, none_, scale_over_, {}, y);
    if (outputs.size() == 1) return;
    Tensor& lengths = outputs[1]->data;
    ensure(context, lengths_, lengths.shape(), DType::f64);
    Tensor roots = lengths_.reshaped(squares_.shape());
    ops::apply_function(context, squares_, {ops::Function::Kind::power, 1, 0, 0.5}, roots);
    ops::copy(context, lengths_, lengths);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &dy = outputs[0]->grad;
    if (scaled() && parameters_[0].grad.defined()) {
      ensure(context, unscaled_, x.shape(), x.dtype(), x.layout());
      ops::divide_by_norm(context, x, squares_, over_, unscaled_);
      ops::scale_backward(context, unscaled_, dy, scale_over_, parameters_[0].grad);
    }
    if (!propagate[0]) return;
    Tensor& dx = inputs[0]->grad;
    ensure(context, products_, squares_.shape(), DType::f64);
    if (scaled()) ops::scale_bias(context, dy, parameters_[0].value, none_, scale_over_, {}, dx);
    if (!dy.defined()) ops::fill(context, dx, 0);  // a loss depends on the lengths only
    const Tensor& unit_gradient = scaled() || !dy.defined() ? dx : dy;
    ops::dot_products(context, x, unit_gradient, over_, 0, products_);
    if (traits_.differentiable_output(1) && outputs.size() > 1 && outputs[1]->grad.defined())
      add_gradient_of_lengths(context, outputs[1]->grad);
    ops::divide_by_norm_backward(context, x, unit_gradient, squares_, products_, over_, dx);
  }

 private:
  const caffe::NormalizeParameter& settings() const { return parameter_.norm_param(); }
  bool by_channels() const { return parameter_.has_normalize_param(); }
  bool scaled() const { return !parameters_.empty(); }

  /// By x it is x / length, to which a product leads that is less by the squared length.
  void add_gradient_of_lengths(Context& context, const Tensor& gradient) {
    ensure(context, lengths_, gradient.shape(), DType::f64);
    ops::copy(context, gradient, lengths_);
    Tensor flat = lengths_.reshaped(squares_.shape());
    ops::multiply(context, flat, squares_, flat);
    ops::axpby(context, -1, flat, 1, products_);
  }

  ops::Channels over_{};
  ops::Broadcast scale_over_{};
  Tensor squares_, products_, lengths_, unscaled_, none_;
};

const RegisterLayer<NormalizeLayer> registered_normalize(
    "Normalize",
    {.about = "vectors of length 1, with a learned scale if norm_param is given; with "
              "normalize_param, their lengths too",
     .message = "norm_param",
     .examples = {"", "eps: 1e-10", "fix_scale: true", "across_spatial: false channel_shared: false"},
     .further = {"normalize_param"}});

}  // namespace
}  // namespace banyan
