// Silence: takes blobs so that they are not outputs of the net. Their gradient is 0.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class SilenceLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, -1, 0, 0}; }
  /// Takes what comes: nothing is read.
  LayoutRule layout_rule() const override { return LayoutRule::channels_last; }
  bool backward_reads_inputs() const override { return false; }
  bool backward_reads_outputs() const override { return false; }

  void reshape(const Blobs&, const Blobs&) override {}
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass& pass, const Blobs&, const std::vector<bool>& propagate, const Blobs& inputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (propagate[i]) ops::fill(*pass.context, inputs[i]->grad, 0);
  }
};

const RegisterLayer<SilenceLayer> registered("Silence");

}  // namespace
}  // namespace banyan
