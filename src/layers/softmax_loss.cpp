// SoftmaxWithLoss: the multinomial logistic loss of softmax(scores), -log(max(p[label], FLT_MIN)) summed over
// the positions whose label is not ignore_label, divided as loss_param says (VALID unless given). Inputs:
// scores, and labels for every position outside the class axis. A second output holds the probabilities.
//
// In training, label_smoothing takes that part of each label's weight and divides it among all classes
// (Szegedy et al. 2016). NVIDIA's shows the loss without it, but has the same gradients.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/class_loss.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class SoftmaxLossLayer : public LossLayer {
 public:
  SoftmaxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options, {.arity = {2, 2, 1, 2}, .differentiable_inputs = 1}) {}

  void setup(const Blobs&, const Blobs&) override {
    const auto& loss = parameter_.loss_param();
    if (!(loss.label_smoothing() >= 0 && loss.label_smoothing() <= 1))
      refuse("label_smoothing must be from 0 to 1; found ", loss.label_smoothing());
    smoothing_ = options().phase == Phase::train ? loss.label_smoothing() : 0;
    if (loss.thresh_ratio() != 1) refuse("thresh_ratio other than 1 is not supported");
    normalization_ = read_normalization(Normalization::valid);
    traits_.meets = meets_for(normalization_);
    ignore_ = {loss.has_ignore_label(), loss.ignore_label()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = channels_along(inputs[0]->shape, parameter_.softmax_param().axis());
    if (inputs[1]->shape.count() != over_.outer * over_.inner)
      refuse("expected one label for each of ", over_.outer, " x ", over_.inner, " positions of the scores ",
             inputs[0]->shape.to_string(), "; ", quoted(inputs[1]->name), " is ",
             inputs[1]->shape.to_string());
    set_output(*outputs[0], Shape{});
    if (outputs.size() > 1) set_output(*outputs[1], inputs[0]->shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (outputs.size() < 2) ensure(context, probabilities_, inputs[0]->shape, dtype());
    Tensor& probabilities = probabilities_of(outputs);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::softmax_forward(context, inputs[0]->data, over_, probabilities);
    if (smoothing_ > 0)
      ops::smoothed_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, smoothing_,
                                 partial_, note_.on(context));
    else
      ops::softmax_loss_forward(context, probabilities, inputs[1]->data, over_, ignore_, partial_,
                                note_.on(context));
    find_divisor(pass, normalization_, over_.outer * over_.inner, over_.outer);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor &probabilities = probabilities_of(outputs), &grad_loss = outputs[0]->grad;
    if (smoothing_ > 0)
      ops::smoothed_loss_backward(*pass.context, probabilities, inputs[1]->data, over_, ignore_, smoothing_,
                                  grad_loss, divisor_, inputs[0]->grad);
    else
      ops::softmax_loss_backward(*pass.context, probabilities, inputs[1]->data, over_, ignore_, grad_loss,
                                 divisor_, inputs[0]->grad);
  }

  void check_results(Context& context) override { note_.check(context, name(), over_); }

 private:
  Tensor& probabilities_of(const Blobs& outputs) {
    return outputs.size() > 1 ? outputs[1]->data : probabilities_;
  }

  Normalization normalization_ = Normalization::valid;
  ops::IgnoreLabel ignore_;
  double smoothing_ = 0;
  ops::Channels over_{};
  Tensor probabilities_;
  LabelNote note_;
};

const RegisterLayer<SoftmaxLossLayer> registered("SoftmaxWithLoss",
                                                 {"multinomial logistic loss of the softmax",
                                                  "softmax_param"});

}  // namespace
}  // namespace banyan
