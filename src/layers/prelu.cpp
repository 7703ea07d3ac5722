// PReLU: y = x where x > 0, else slope * x, with a learned slope per channel or for all (He et al. 2015). The
// gradient at 0 is that of the slope's side.
#include "banyan/ops/functions.hpp"
#include "covered_axes.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class PreluLayer : public ElementwiseLayer {
 public:
  PreluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, true, false) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.prelu_param();
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    caffe::FillerParameter filler = settings.filler();
    if (!settings.has_filler()) filler.set_value(0.25);
    declare(settings.channel_shared() ? Shape{} : Shape{inputs[0]->shape[1]}, filler);
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& shape = inputs[0]->shape;
    if (shape.axes() < 2 || (!shared() && shape[1] != parameters_[0].shape[0]))
      refuse("input ", quoted(inputs[0]->name), " of shape ", shape.to_string(), " does not fit the ",
             parameters_[0].shape.count(), " slopes");
    ElementwiseLayer::reshape(inputs, outputs);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::prelu_forward(*pass.context, inputs[0]->data, parameters_[0].value, over(*inputs[0]),
                       outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Parameter& slope = parameters_[0];
    ops::prelu_backward(*pass.context, inputs[0]->data, outputs[0]->grad, slope.value, over(*inputs[0]),
                        propagate[0] ? inputs[0]->grad : none_, slope.grad);
  }

 private:
  bool shared() const { return parameter_.prelu_param().channel_shared(); }
  ops::Broadcast over(const Blob& input) const {
    return shared() ? ops::Broadcast{1, 1, input.shape.count()}
                    : broadcast_over(input, {1, parameters_[0].shape});
  }

  Tensor none_;
};

const RegisterLayer<PreluLayer> registered_prelu("PReLU", {"rectifier whose slope is learned",
                                                           "prelu_param",
                                                           {"", "channel_shared: true"}});

}  // namespace
}  // namespace banyan
