// SigmoidCrossEntropyLoss: -t log(p) - (1 - t) log(1 - p) with p = sigmoid(x), summed over all elements whose
// target t is not ignore_label, divided as loss_param says (BATCH_SIZE unless given). A third input (MNC)
// weighs the elements; then the sum of the weights over all devices divides. With class_balance (HED, RCF)
// the targets of a sample weigh them.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/class_balance.hpp"
#include "target_loss_layer.hpp"

namespace banyan {
namespace {

class SigmoidCrossEntropyLossLayer : public TargetLossLayer {
 public:
  SigmoidCrossEntropyLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : TargetLossLayer(parameter, options, 3, 1, {ops::TargetLoss::Kind::sigmoid_cross_entropy}) {}

  void read_settings() override {
    const auto& loss = parameter_.loss_param();
    if (loss.label_smoothing() != 0) refuse("label_smoothing is not supported: smooth the targets");
    if (loss.thresh_ratio() != 1) refuse("thresh_ratio (yjxiong) is a setting of SoftmaxWithLoss only");
    normalization_ = read_normalization(Normalization::batch_size);
    traits_.meets = meets_for(normalization_);
    loss_.ignore = {loss.has_ignore_label(), loss.ignore_label()};
    weighted_ = parameter_.bottom_size() > 2;
    balance_ = loss.class_balance();
    if (!(balance_ >= 0)) refuse("class_balance must not be negative");
    if (weighted_ && balance_ > 0)
      refuse("class_balance and a third input, both of which weigh, exclude each other");
    if (!weighted_) return;
    if (loss.has_ignore_label() || loss.has_normalization() || loss.has_normalize())
      refuse("with a third input, whose sum divides, ignore_label and normalization have no meaning");
    traits_.meets = Meets::forward;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (balance_ > 0) {
      const Tensor& target = inputs[1]->data;
      ensure(context, counts_, Shape{2 * inputs[1]->shape[0]}, DType::f64);
      ensure(context, weights_, target.shape(), target.dtype(), target.layout());
      ops::class_balance_weights(context, target, inputs[1]->shape[0], balance_, counts_, weights_);
    }
    if (!weighted_) return TargetLossLayer::forward(pass, inputs, outputs);
    ensure(context, partial_, Shape{2}, DType::f64);
    ensure(context, divisor_, Shape{1}, DType::f64);
    ops::target_loss_forward(context, targets(inputs), loss_, partial_);
    ops::sum(context, inputs[2]->data, divisor_);
    sum_over_devices(pass, divisor_, {name().c_str(), "divisor"});
    write_exact_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!weighted_) return TargetLossLayer::backward(pass, outputs, propagate, inputs);
    if (!propagate[0]) return;
    Context& context = *pass.context;
    ensure(context, one_, Shape{1}, DType::f64);
    ops::fill(context, one_, 1);
    ops::target_loss_backward(context, targets(inputs), loss_, 1, exact_scale(pass, *outputs[0]), one_,
                              inputs[0]->grad);
  }

 private:
  ops::Targets targets(const Blobs& inputs) const override {
    const Tensor weights = weighted_ ? inputs[2]->data : balance_ > 0 ? weights_ : Tensor();
    return {inputs[0]->data, inputs[1]->data, Tensor(), weights};
  }

  bool weighted_ = false;
  double balance_ = 0;  ///< 0: off
  Tensor one_, counts_, weights_;
};

const RegisterLayer<SigmoidCrossEntropyLossLayer> registered_sigmoid_cross_entropy_loss(
    "SigmoidCrossEntropyLoss", {.about = "cross entropy of logistic probabilities",
                                .message = "loss_param",
                                .examples = {"", "normalization: VALID"},
                                .inputs = {{4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
