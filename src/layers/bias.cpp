// Bias: y = x + b, b broadcast over the axes outside [axis, axis + num_axes). b is a parameter, or the second
// input.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "covered_axes.hpp"

namespace banyan {
namespace {

class BiasLayer : public Layer {
 public:
  BiasLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 2, 1, 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .in_place = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .fuses_activation = ActivationFusion::forward}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    const CoveredAxes axes = covered(inputs);
    const bool per_channel = inputs.size() == 1 && is_per_channel(axes);
    if (!per_channel) traits_.layout = LayoutRule::contiguous;
    if (per_channel) traits_.channel_bias = 0;
    if (inputs.size() == 1) declare(axes.operand, parameter_.bias_param().filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const CoveredAxes axes = covered(inputs);
    if (inputs.size() == 1 && !(axes.operand == parameters_[0].shape))
      refuse("input ", quoted(inputs[0]->name), " of shape ", inputs[0]->shape.to_string(),
             " does not fit the parameter of shape ", parameters_[0].shape.to_string());
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Tensor& bias = inputs.size() > 1 ? inputs[1]->data : parameters_[0].value;
    ops::scale_bias(*pass.context, inputs[0]->data, none_, bias, broadcast_over(*inputs[0], covered(inputs)),
                    pass.fused.output, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    const ops::Broadcast over = broadcast_over(*inputs[0], covered(inputs));
    if (inputs.size() > 1 && propagate[1]) {
      ops::fill(context, inputs[1]->grad, 0);
      ops::scale_backward(context, none_, dy, over, inputs[1]->grad);
    } else if (inputs.size() == 1 && parameters_[0].grad.defined()) {
      ops::scale_backward(context, none_, dy, over, parameters_[0].grad);
    }
    if (propagate[0]) ops::copy(context, dy, inputs[0]->grad);
  }

 private:
  CoveredAxes covered(const Blobs& inputs) const {
    const auto& settings = parameter_.bias_param();
    return inputs.size() > 1
               ? covered_by_input(name(), inputs[0]->shape, settings.axis(), inputs[1]->shape)
               : covered_by_parameter(name(), inputs[0]->shape, settings.axis(), settings.num_axes());
  }

  Tensor none_;
};

const RegisterLayer<BiasLayer> registered_bias("Bias", {"adds a parameter or a second blob", "bias_param"});

}  // namespace
}  // namespace banyan
