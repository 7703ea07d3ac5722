// OverlapSoftmaxWithLoss (scnn, Shou et al. 2016): the softmax loss and, where the label is not 0
// (background), (p^2 / v^(1/4) - 1) / 2, p being the probability of the label and v the third input, the
// overlap of the position's clip with what really happens: clips that overlap little should not be likely.
// Where v is not positive, nothing is added. Inputs, divisor and second output: softmaxed_loss_layer.hpp.
#include "banyan/ops/class_loss.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class OverlapSoftmaxLossLayer : public SoftmaxedLossLayer {
 public:
  OverlapSoftmaxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 3) {
    traits_.arity.min_inputs = 3;
  }

  void read_settings() override {
    SoftmaxedLossLayer::read_settings();
    refuse_label_smoothing();
    refuse_thresh_ratio();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::reshape(inputs, outputs);
    if (inputs[2]->shape.count() != over_.outer * over_.inner)
      refuse("expected one overlap for each of ", over_.outer * over_.inner, " labels; ",
             quoted(inputs[2]->name), " is ", inputs[2]->shape.to_string());
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    ops::overlap_loss_backward(*pass.context, probabilities_of(outputs), inputs[1]->data, inputs[2]->data,
                               over_, ignore_, outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    ops::overlap_loss_forward(context, probabilities, inputs[1]->data, inputs[2]->data, over_, ignore_,
                              partial_, note_.on(context));
  }
};

const RegisterLayer<OverlapSoftmaxLossLayer> registered_overlap_softmax_loss(
    "OverlapSoftmaxWithLoss", {.about = "softmax loss, less likely labels where clips overlap little (scnn)",
                               .message = "softmax_param",
                               .inputs = {{4}, {}, {}}});

}  // namespace
}  // namespace banyan
