// ChannelNorm (FlowNet2): N x 1 x H x W, the length of the vector of channels at each position. Where that is
// 0, so is the gradient.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class ChannelNormLayer : public Layer {
 public:
  ChannelNormLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.layout = LayoutRule::follows, .by_sample = true}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    Shape lengths = inputs[0]->shape;
    if (lengths.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    lengths.set_dim(1, 1);
    set_output(*outputs[0], lengths, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    ensure(context, squares_, y.shape(), DType::f64, y.layout());
    ops::dot_products(context, x, x, over(x), 0, squares_);
    ops::apply_function(context, squares_, {ops::Function::Kind::power, 1, 0, 0.5}, squares_);
    ops::copy(context, squares_, y);
  }

  /// dx = dy * x / (y + a little).
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    const Tensor& y = outputs[0]->data;
    ensure(context, factors_, y.shape(), y.dtype(), y.layout());
    ops::apply_function(context, y, {ops::Function::Kind::power, 1, 1e-9, -1}, factors_);
    ops::multiply(context, factors_, outputs[0]->grad, factors_);
    ops::scale_vectors(context, inputs[0]->data, factors_, over(inputs[0]->data), inputs[0]->grad);
  }

 private:
  static ops::Channels over(const Tensor& x) {
    const std::int64_t samples = x.shape()[0], channels = x.shape()[1], pixels = x.shape().count(2);
    if (x.layout() == Layout::channels_last) return {samples * pixels, channels, 1};
    return {samples, channels, pixels};
  }

  Tensor squares_, factors_;
};

const RegisterLayer<ChannelNormLayer> registered_channel_norm(
    "ChannelNorm", {.about = "length of the channels at each position (FlowNet2)", .message = ""});

}  // namespace
}  // namespace banyan
