// ChannelScale (caffe-windows): features (N x C, further axes are positions) times one factor for each
// position of each sample: y[n, c, s] = x[n, c, s] f[n, s]. f may have any axes after the first.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class ChannelScaleLayer : public Layer {
 public:
  ChannelScaleLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .in_place = true,
               .backward_reads_outputs = false,
               .differentiable_inputs = parameter.channel_scale_param().do_backward_scale() ? 2 : 1}) {}

  void read_settings() override {
    const caffe::ChannelScaleParameter& s = parameter_.channel_scale_param();
    if (s.global_scale())
      refuse(
          "global_scale: true is not supported; Scale with num_axes: 0, min_value and max_value has one "
          "stored factor");
    if (!s.do_forward() || !s.do_backward_feature())
      refuse("do_forward: false and do_backward_feature: false are not supported");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &x = inputs[0]->shape, &factors = inputs[1]->shape;
    if (x.axes() < 2 || factors.axes() < 1 || factors[0] != x[0] || factors.count(1) != x.count(2))
      refuse(
          "expected features with an axis of channels, axis 1, and one factor for each of their positions; ",
          quoted(inputs[0]->name), " is ", x.to_string(), ", ", quoted(inputs[1]->name), " is ",
          factors.to_string());
    over_ = {x[0], x[1], x.count(2)};
    set_output(*outputs[0], x);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::scale_vectors(*pass.context, inputs[0]->data, inputs[1]->data, over_, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    if (propagate[1]) {
      ensure(context, products_, inputs[1]->grad.shape(), DType::f64);
      ops::dot_products(context, inputs[0]->data, dy, over_, 0, products_);
      ops::copy(context, products_, inputs[1]->grad);
    }
    // Last because, in place, dx overwrites dy.
    if (propagate[0]) ops::scale_vectors(context, dy, inputs[1]->data, over_, inputs[0]->grad);
  }

 private:
  ops::Channels over_{};
  Tensor products_;
};

const RegisterLayer<ChannelScaleLayer> registered_channel_scale(
    "ChannelScale", {.about = "multiplies the channels at each position by one number of a second blob",
                     .message = "channel_scale_param",
                     .examples = {"", "do_backward_scale: false"},
                     .inputs = {{4, 5, 5}, {5, 5}}});

}  // namespace
}  // namespace banyan
