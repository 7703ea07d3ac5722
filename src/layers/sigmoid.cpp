// Sigmoid: y = 1 / (1 + exp(-x)).
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class SigmoidLayer : public ElementwiseLayer {
 public:
  SigmoidLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, true) {}

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::sigmoid_forward(*pass.context, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::sigmoid_backward(*pass.context, outputs[0]->data, outputs[0]->grad, inputs[0]->grad);
  }
};

const RegisterLayer<SigmoidLayer> registered_sigmoid("Sigmoid", {"logistic function", "sigmoid_param"});

}  // namespace
}  // namespace banyan
