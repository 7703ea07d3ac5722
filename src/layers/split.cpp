// Split: hands one blob to several consumers. The outputs share the input's data; the gradient is their sum.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class SplitLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 1, 1, -1}; }
  LayoutRule layout_rule() const override { return LayoutRule::follows; }
  int shared_input(int) const override { return 0; }
  bool backward_reads_inputs() const override { return false; }
  bool backward_reads_outputs() const override { return false; }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (Blob* output : outputs) set_output(*output, inputs[0]->shape, inputs[0]->layout);
  }
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    bool first = true;
    for (const Blob* output : outputs) {
      if (!output->grad.defined()) continue;  // a consumer that no loss depends on
      ops::axpby(*pass.context, 1, output->grad, first ? 0 : 1, inputs[0]->grad);
      first = false;
    }
    if (first) ops::fill(*pass.context, inputs[0]->grad, 0);
  }
};

const RegisterLayer<SplitLayer> registered("Split");

}  // namespace
}  // namespace banyan
