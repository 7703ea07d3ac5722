// SigmoidCrossEntropyLoss: -t log(p) - (1 - t) log(1 - p) with p = sigmoid(x), summed over all elements whose
// target t is not ignore_label, divided as loss_param says (BATCH_SIZE unless given).
#include "target_loss_layer.hpp"

namespace banyan {
namespace {

class SigmoidCrossEntropyLossLayer : public TargetLossLayer {
 public:
  SigmoidCrossEntropyLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : TargetLossLayer(parameter, options, 2, 1, {ops::TargetLoss::Kind::sigmoid_cross_entropy}) {}

  void setup(const Blobs&, const Blobs&) override {
    const auto& loss = parameter_.loss_param();
    if (loss.label_smoothing() != 0) refuse("label_smoothing is not supported: smooth the targets");
    if (loss.thresh_ratio() != 1) refuse("thresh_ratio (yjxiong) is a setting of SoftmaxWithLoss only");
    normalization_ = read_normalization(Normalization::batch_size);
    traits_.meets = meets_for(normalization_);
    loss_.ignore = {loss.has_ignore_label(), loss.ignore_label()};
  }
};

const RegisterLayer<SigmoidCrossEntropyLossLayer> registered_sigmoid_cross_entropy_loss(
    "SigmoidCrossEntropyLoss", {.about = "cross entropy of logistic probabilities",
                                .message = "loss_param",
                                .examples = {"", "normalization: VALID"},
                                .inputs = {{4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
