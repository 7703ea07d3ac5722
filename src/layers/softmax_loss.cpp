// SoftmaxWithLoss: the multinomial logistic loss of softmax(scores), -log(max(p[label], FLT_MIN)); inputs,
// divisor and second output: softmaxed_loss_layer.hpp.
//
// In training, label_smoothing takes that part of each label's weight and divides it among all classes
// (Szegedy et al. 2016). NVIDIA's shows the loss without it, but has the same gradients.
#include "banyan/ops/class_loss.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class SoftmaxLossLayer : public SoftmaxedLossLayer {
 public:
  SoftmaxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 2) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::setup(inputs, outputs);
    const auto& loss = parameter_.loss_param();
    if (!(loss.label_smoothing() >= 0 && loss.label_smoothing() <= 1))
      refuse("label_smoothing must be from 0 to 1; found ", loss.label_smoothing());
    smoothing_ = options().phase == Phase::train ? loss.label_smoothing() : 0;
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor &probabilities = probabilities_of(outputs), &grad_loss = outputs[0]->grad;
    if (smoothing_ > 0)
      ops::smoothed_loss_backward(*pass.context, probabilities, inputs[1]->data, over_, ignore_, smoothing_,
                                  grad_loss, divisor_, inputs[0]->grad);
    else
      ops::softmax_loss_backward(*pass.context, probabilities, inputs[1]->data, over_, ignore_, grad_loss,
                                 divisor_, inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    if (smoothing_ > 0)
      ops::smoothed_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, smoothing_,
                                 partial_, note_.on(context));
    else
      ops::softmax_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, partial_,
                                note_.on(context));
  }

  double smoothing_ = 0;
};

const RegisterLayer<SoftmaxLossLayer> registered("SoftmaxWithLoss",
                                                 {"multinomial logistic loss of the softmax",
                                                  "softmax_param"});

}  // namespace
}  // namespace banyan
