// MultinomialLogisticLoss: -log(max(p[label], 1e-20)) of given probabilities p, divided by the number of
// samples. (SoftmaxWithLoss takes scores and is safer near 0.)
#include "class_loss_layer.hpp"

namespace banyan {
namespace {

class MultinomialLogisticLossLayer : public ClassLossLayer {
 public:
  MultinomialLogisticLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ClassLossLayer(parameter, options) {}

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::logistic_loss_backward(*pass.context, inputs[0]->data, inputs[1]->data, over_, outputs[0]->grad,
                                  divisor_, inputs[0]->grad);
  }

 protected:
  void add_up(Context& context, const Tensor& scores, const Tensor& labels) override {
    ops::logistic_loss_forward(context, scores, labels, over_, partial_, note_.on(context));
  }
};

const RegisterLayer<MultinomialLogisticLossLayer> registered_multinomial_logistic_loss(
    "MultinomialLogisticLoss", {"multinomial logistic loss of probabilities", ""});

}  // namespace
}  // namespace banyan
