// Rescale (DeepSkeleton): labels of scales x within a receptive field, x below rf and not 0, become 2 x / rf
// - 1, from -1 to 1 if they are positive; others 0. The second output is 1 for the former, 0 for the latter.
// It has no gradient.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/functions.hpp"

namespace banyan {
namespace {

class RescaleLayer : public Layer {
 public:
  RescaleLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 1, 2},
               .layout = LayoutRule::follows,
               .by_sample = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0}) {}

  void read_settings() override {
    if (parameter_.rescale_param().rf() < 1) refuse("rf must be positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (Blob* output : outputs) set_output(*output, inputs[0]->shape, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const double rf = parameter_.rescale_param().rf();
    constexpr auto kKind = ops::Function::Kind::affine_part;
    ops::apply_function(*pass.context, inputs[0]->data, {kKind, rf, 2 / rf, -1}, outputs[0]->data);
    if (outputs.size() > 1)
      ops::apply_function(*pass.context, inputs[0]->data, {kKind, rf, 0, 1}, outputs[1]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};

const RegisterLayer<RescaleLayer> registered_rescale(
    "Rescale", {.about = "scales within a receptive field become -1 to 1 (DeepSkeleton)",
                .message = "rescale_param",
                .examples = {"rf: 3"},
                .inputs = {{1, 5, 5}}});

}  // namespace
}  // namespace banyan
