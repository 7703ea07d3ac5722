// Gather and Scatter (yjxiong): with several MPI processes Gather joins their batches and Scatter divides
// them again; with one they pass blobs on. Banyan's layers work on the device's own part of the batch
// throughout, so training on several devices refuses them.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class GatherLayer : public Layer {
 public:
  GatherLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 1, -1, true},
               .layout = LayoutRule::follows,
               .storage = StorageRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void read_settings() override {
    if (options().devices > 1 && options().net_phase == Phase::train)
      refuse(
          "joins and divides the batches of all devices, which training on more than one does not support");
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      set_output(*outputs[i], inputs[i]->shape, inputs[i]->layout);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ops::copy(*pass.context, inputs[i]->data, outputs[i]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!propagate[i]) continue;
      if (outputs[i]->grad.defined())
        ops::copy(*pass.context, outputs[i]->grad, inputs[i]->grad);
      else  // no loss depends on it
        ops::fill(*pass.context, inputs[i]->grad, 0);
    }
  }
};

const RegisterLayer<GatherLayer> registered_gather(
    "Gather", {"joins the batches of MPI processes; on one device a copy", ""});
const RegisterLayer<GatherLayer> registered_scatter("Scatter",
                                                    {"divides what Gather joined; on one device a copy", ""});

}  // namespace
}  // namespace banyan
