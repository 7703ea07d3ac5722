// Sigmoid: y = 1 / (1 + exp(-x)).
#include "banyan/layers/layer.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class SigmoidLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {}; }
  LayoutRule layout_rule() const override { return LayoutRule::follows; }
  bool allows_in_place() const override { return true; }
  bool backward_reads_inputs() const override { return false; }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::sigmoid_forward(*pass.context, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::sigmoid_backward(*pass.context, outputs[0]->data, outputs[0]->grad, inputs[0]->grad);
  }
};

const RegisterLayer<SigmoidLayer> registered("Sigmoid");

}  // namespace
}  // namespace banyan
