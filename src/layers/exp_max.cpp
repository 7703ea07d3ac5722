// ExpMax (LiteFlowNet): y = base^(shift + scale (x - the largest x at its position, over axis 1)); base -1
// stands for e. The gradient takes the largest x for a constant, as there: what divides y by its sum has the
// same gradient either way.
#include "function_layer.hpp"

namespace banyan {
namespace {

class ExpMaxLayer : public FunctionLayer {
 public:
  ExpMaxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::exponential}) {}

  void read_settings() override { raise(parameter_.expmax_param()); }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    FunctionLayer::reshape(inputs, outputs);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Tensor& x = inputs[0]->data;
    const std::int64_t samples = x.shape()[0], channels = x.shape()[1], pixels = x.shape().count(2);
    const ops::Channels over = x.layout() == Layout::channels_last
                                   ? ops::Channels{samples * pixels, channels, 1}
                                   : ops::Channels{samples, channels, pixels};
    ops::exp_below_largest(*pass.context, x, over, function_.a, function_.b, outputs[0]->data);
  }
};

const RegisterLayer<ExpMaxLayer> registered_exp_max(
    "ExpMax", {.about = "base^(shift + scale * (x - the largest of the channels)) (LiteFlowNet)",
               .message = "expmax_param",
               .examples = {"", "base: 2 scale: 0.5 shift: 1.5"}});

}  // namespace
}  // namespace banyan
