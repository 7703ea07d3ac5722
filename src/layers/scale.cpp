// Scale: y = x * s (+ b), s and b broadcast over the axes outside [axis, axis + num_axes). s is a parameter,
// or the second input; b (bias_term) is a parameter of the same shape. With min_value or max_value
// (caffe-windows) s is brought within them before each pass; its gradient is the one without this.
#include <limits>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/functions.hpp"
#include "covered_axes.hpp"

namespace banyan {
namespace {

class ScaleLayer : public Layer {
 public:
  ScaleLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 2, 1, 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .in_place = true,
               .backward_reads_outputs = false,
               .fuses_activation = ActivationFusion::forward}) {}

  void read_settings() override;
  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;
  double forward_flops(const Blobs& inputs, const Blobs&) const override {
    return static_cast<double>(inputs[0]->shape.count());
  }

 private:
  CoveredAxes covered(const Blobs& inputs) const {
    const auto& settings = parameter_.scale_param();
    return inputs.size() > 1
               ? covered_by_input(name(), inputs[0]->shape, settings.axis(), inputs[1]->shape)
               : covered_by_parameter(name(), inputs[0]->shape, settings.axis(), settings.num_axes());
  }
  bool limited() const {
    return parameter_.scale_param().has_min_value() || parameter_.scale_param().has_max_value();
  }
  /// As stored or given.
  const Tensor& unlimited(const Blobs& inputs) const {
    return inputs.size() > 1 ? inputs[1]->data : parameters_[0].value;
  }
  const Tensor& scale(const Blobs& inputs) const {
    if (!limited()) return unlimited(inputs);
    return inputs.size() > 1 ? within_ : parameters_[0].used;
  }
  void limit(Context& context, const Blobs& inputs) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    const auto& s = parameter_.scale_param();
    const Tensor& given = unlimited(inputs);
    Tensor& within = inputs.size() > 1 ? within_ : parameters_[0].used;
    ensure(context, within, given.shape(), given.dtype());
    ops::apply_function(context, given,
                        {ops::Function::Kind::clip, s.has_min_value() ? s.min_value() : -kNone,
                         s.has_max_value() ? s.max_value() : kNone},
                        within);
  }

  int bias_slot_ = -1;
  Tensor within_, none_;
};

void ScaleLayer::read_settings() {
  const auto& settings = parameter_.scale_param();
  if (settings.has_min_value() && settings.has_max_value() && !(settings.min_value() <= settings.max_value()))
    refuse("min_value ", settings.min_value(), " exceeds max_value ", settings.max_value());
}

void ScaleLayer::setup(const Blobs& inputs, const Blobs&) {
  const auto& settings = parameter_.scale_param();
  const CoveredAxes axes = covered(inputs);
  const bool per_channel = inputs.size() == 1 && is_per_channel(axes);
  if (!per_channel) traits_.layout = LayoutRule::contiguous;
  if (per_channel && !limited()) traits_.channel_slope = 0;
  traits_.by_sample = per_channel;
  if (inputs.size() == 1) {
    caffe::FillerParameter filler = settings.filler();
    if (!settings.has_filler()) filler.set_value(1);
    declare(axes.operand, filler).adjusted = limited();
  }
  if (settings.bias_term()) {
    bias_slot_ = static_cast<int>(parameters_.size());
    if (per_channel && !limited()) traits_.channel_bias = bias_slot_;
    declare(axes.operand, settings.bias_filler());
  }
}

void ScaleLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  const CoveredAxes axes = covered(inputs);
  for (const Parameter& parameter : parameters_) {
    if (!(axes.operand == parameter.shape))
      refuse("input ", quoted(inputs[0]->name), " of shape ", inputs[0]->shape.to_string(),
             " does not fit the parameter of shape ", parameter.shape.to_string());
  }
  set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
}

void ScaleLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  if (limited()) limit(context, inputs);
  const Tensor& x = inputs[0]->data;
  const Tensor& bias = bias_slot_ < 0 ? none_ : parameters_[bias_slot_].value;
  ops::scale_bias(context, x, scale(inputs), bias, broadcast_over(*inputs[0], covered(inputs)),
                  pass.fused.output, outputs[0]->data);
}

void ScaleLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                          const Blobs& inputs) {
  Context& context = *pass.context;
  const Tensor& dy = outputs[0]->grad;
  const Tensor& x = inputs[0]->data;
  const ops::Broadcast over = broadcast_over(*inputs[0], covered(inputs));
  if (bias_slot_ >= 0) {
    Tensor& grad_bias = parameters_[bias_slot_].grad;
    if (grad_bias.defined()) ops::scale_backward(context, none_, dy, over, grad_bias);
  }
  if (inputs.size() > 1 && propagate[1]) {
    ops::fill(context, inputs[1]->grad, 0);
    ops::scale_backward(context, x, dy, over, inputs[1]->grad);
  } else if (inputs.size() == 1 && parameters_[0].grad.defined()) {
    ops::scale_backward(context, x, dy, over, parameters_[0].grad);
  }
  // Last because, in place, dx overwrites dy.
  if (propagate[0]) ops::scale_bias(context, dy, scale(inputs), none_, over, {}, inputs[0]->grad);
}

const RegisterLayer<ScaleLayer> registered_scale(
    "Scale", {"multiplies by a parameter or a second blob, with or without a bias",
              "scale_param",
              {"bias_term: true"}});

}  // namespace
}  // namespace banyan
