// SymmetricRectify (wenwei202/caffe, SSL): y = x - t above t, x + t below -t, else 0, with a learned
// threshold t for each channel (axis 1) or for all. Passes use t as 0 where an update brought it below. From
// the gradient of t thre_decay is subtracted, once for all devices, which draws it up.
#include <cmath>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/soft_threshold.hpp"
#include "covered_axes.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class SymmetricRectifyLayer : public ElementwiseLayer {
 public:
  SymmetricRectifyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, true) {}

  void read_settings() override {
    if (!std::isfinite(settings().thre_decay()))
      refuse("thre_decay must be finite; found ", settings().thre_decay());
  }
  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    const Shape thresholds = settings().channel_shared() ? Shape{} : Shape{inputs[0]->shape[1]};
    declare(thresholds, settings().filler()).adjusted = true;
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& shape = inputs[0]->shape;
    if (shape.axes() < 2 || (!settings().channel_shared() && shape[1] != parameters_[0].shape[0]))
      refuse("input ", quoted(inputs[0]->name), " of shape ", shape.to_string(), " does not fit the ",
             parameters_[0].shape.count(), " thresholds");
    ElementwiseLayer::reshape(inputs, outputs);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    Parameter& threshold = parameters_[0];
    ensure(context, threshold.used, threshold.shape, threshold.value.dtype());
    ops::relu_forward(context, threshold.value, 0, threshold.used);
    ops::soft_threshold_forward(context, inputs[0]->data, threshold.used, over(*inputs[0]), outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    Parameter& threshold = parameters_[0];
    ops::soft_threshold_backward(context, outputs[0]->data, outputs[0]->grad, over(*inputs[0]),
                                 propagate[0] ? inputs[0]->grad : none_, threshold.grad);
    const bool first_device = pass.samples.first == 0;
    if (!threshold.grad.defined() || settings().thre_decay() == 0 || !first_device) return;
    ensure(context, decay_, threshold.shape, threshold.grad.dtype());
    ops::fill(context, decay_, settings().thre_decay());
    ops::axpby(context, -1, decay_, 1, threshold.grad);
  }

 private:
  const caffe::SymmetricRectifyParameter& settings() const { return parameter_.symmetric_rectify_param(); }
  ops::Broadcast over(const Blob& input) const {
    return settings().channel_shared() ? ops::Broadcast{1, 1, input.shape.count()}
                                       : broadcast_over(input, {1, parameters_[0].shape});
  }

  Tensor decay_, none_;
};

const RegisterLayer<SymmetricRectifyLayer> registered_symmetric_rectify(
    "SymmetricRectify", {"draws values to 0 from both sides by learned thresholds (SSL)",
                         "symmetric_rectify_param",
                         {"filler { value: 0.1 }", "channel_shared: true filler { value: 0.1 }"}});

}  // namespace
}  // namespace banyan
