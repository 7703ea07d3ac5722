// Split: gives one blob to several consumers. The outputs share the input's data; its gradient is the sum of
// theirs.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class SplitLayer : public Layer {
 public:
  SplitLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 1, -1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::follows,
               .by_sample = true,
               .view = View::data,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .gathers_gradients = true,
               .fuses_activation_of_input = InputActivation::by_input}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (Blob* output : outputs) set_output(*output, inputs[0]->shape, inputs[0]->layout);
  }
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    std::vector<const Tensor*> terms;
    for (const Blob* output : outputs)
      if (output->grad.defined()) terms.push_back(&output->grad);  // otherwise no loss depends on the reader
    Tensor& sum = inputs[0]->grad;
    if (terms.empty())
      ops::fill(*pass.context, sum, 0);
    else if (pass.fused.input.on())
      ops::activation_backward_of_sum(*pass.context, terms, inputs[0]->data, pass.fused.input, sum);
    else if (terms.size() > 1 || !terms[0]->same_memory(sum))
      ops::weighted_sum(*pass.context, terms, std::vector<double>(terms.size(), 1), {}, sum);
  }
};

const RegisterLayer<SplitLayer> registered_split(
    "Split", {"hands one blob to several readers; inserted where a net needs it", ""});

}  // namespace
}  // namespace banyan
