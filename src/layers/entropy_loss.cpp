// EntropyLoss (Xlearn): the entropy -p log p of each sample's probabilities p that are not below `threshold`,
// summed and divided by N, the number of samples over all devices. 0, with no gradient, before iteration
// iterations_num of a run. (The branch shows its sum with the other sign.)
#include "banyan/layers/loss.hpp"
#include "banyan/ops/distribution_loss.hpp"

namespace banyan {
namespace {

class EntropyLossLayer : public LossLayer {
 public:
  EntropyLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options, {.backward_reads_outputs = false, .meets = Meets::forward}) {}

  void read_settings() override {
    if (!(settings().threshold() >= 0))
      refuse("threshold must not be negative; found ", settings().threshold());
    entropy_ = {settings().threshold(), settings().iterations_num()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    if (inputs[0]->shape.axes() < 1)
      refuse("input ", quoted(inputs[0]->name), " must have an axis of samples");
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    entropy_.passes = pass.passes;
    ensure(*pass.context, partial_, Shape{2}, DType::f64);
    ops::entropy_forward(*pass.context, inputs[0]->data, entropy_, start(pass), partial_);
    find_divisor(pass, Normalization::batch_size, 1, inputs[0]->shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::entropy_backward(*pass.context, inputs[0]->data, entropy_, start(pass), outputs[0]->grad, divisor_,
                            inputs[0]->grad);
  }

 private:
  const caffe::EntropyParameter& settings() const { return parameter_.entropy_param(); }
  /// In tests the number of the pass is not that of an iteration.
  const std::uint64_t* start(const Pass& pass) const {
    return options().phase == Phase::train ? pass.draw_on_device : nullptr;
  }

  ops::Entropy entropy_;
};

const RegisterLayer<EntropyLossLayer> registered_entropy_loss(
    "EntropyLoss", {.about = "the entropy of probabilities (Xlearn)",
                    .message = "entropy_param",
                    .examples = {"", "threshold: 0.2 iterations_num: 5"},
                    .inputs = {{4}}});

}  // namespace
}  // namespace banyan
