// Silence: consumes blobs so that they are not outputs of the net. Their gradient is 0.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class SilenceLayer : public Layer {
 public:
  SilenceLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 0, 0},
               .layout = LayoutRule::channels_last,
               .storage = StorageRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void reshape(const Blobs&, const Blobs&) override {}
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass& pass, const Blobs&, const std::vector<bool>& propagate, const Blobs& inputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (propagate[i]) ops::fill(*pass.context, inputs[i]->grad, 0);
  }
};

const RegisterLayer<SilenceLayer> registered_silence("Silence", {"takes blobs that nothing else reads", ""});

}  // namespace
}  // namespace banyan
