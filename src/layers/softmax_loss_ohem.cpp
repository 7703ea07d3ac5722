// SoftmaxWithLossOHEM (R-FCN): SoftmaxWithLoss, with a third output, like the labels: the loss of each
// position, 0 where the label is ignored. No gradient flows through it.
#include "banyan/ops/class_loss.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class SoftmaxLossOhemLayer : public SoftmaxedLossLayer {
 public:
  SoftmaxLossOhemLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 2) {
    traits_.arity.max_outputs = 3;
  }

  void read_settings() override {
    SoftmaxedLossLayer::read_settings();
    refuse_label_smoothing();
    refuse_thresh_ratio();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::reshape(inputs, outputs);
    if (outputs.size() > 2) set_output(*outputs[2], inputs[1]->shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::forward(pass, inputs, outputs);
    if (outputs.size() > 2)
      ops::position_losses(*pass.context, probabilities_of(outputs), inputs[1]->data, over_, ignore_, false,
                           outputs[2]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::softmax_loss_backward(*pass.context, probabilities_of(outputs), inputs[1]->data, over_, ignore_,
                                 outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.softmax_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    ops::softmax_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, partial_,
                              note_.on(context));
  }
};

const RegisterLayer<SoftmaxLossOhemLayer> registered_softmax_loss_ohem(
    "SoftmaxWithLossOHEM", {"SoftmaxWithLoss that shows each position's loss (R-FCN)", "softmax_param"});

}  // namespace
}  // namespace banyan
