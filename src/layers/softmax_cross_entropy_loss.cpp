// SoftmaxCrossEntropyLoss (Zhang, Isola, Efros 2016): scores and targets of one shape, the targets being a
// distribution along axis 1, or softmax_param's axis: the sum over all positions of -t (log p - log t), p
// being the softmax of the scores, over the number of samples, or as loss_param says.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/distribution_loss.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class SoftmaxCrossEntropyLossLayer : public LossLayer {
 public:
  SoftmaxCrossEntropyLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false, .differentiable_inputs = 1}) {}

  void read_settings() override {
    require_softmax(parameter_.softmax_param(), [&](const auto&... why) { refuse(why...); });
    if (parameter_.loss_param().has_ignore_label())
      refuse(
          "ignore_label names a class, and targets are distributions; targets that are all 0 cost nothing");
    normalization_ = read_normalization(Normalization::batch_size);
    traits_.meets = meets_for(normalization_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &scores = inputs[0]->shape, &targets = inputs[1]->shape;
    if (scores.axes() < 1 || scores != targets)
      refuse("scores and targets must have the same shape; found ", scores.to_string(), " and ",
             targets.to_string());
    over_ = channels_along(scores, parameter_.softmax_param().axis());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& scores = inputs[0]->data;
    ensure(context, probabilities_, scores.shape(), scores.dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::softmax_forward(context, scores, over_, probabilities_);
    ops::distribution_loss_forward(context, probabilities_, inputs[1]->data, over_, partial_);
    find_divisor(pass, normalization_, over_.outer * over_.inner, inputs[0]->shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::distribution_loss_backward(*pass.context, probabilities_, inputs[1]->data, over_, outputs[0]->grad,
                                      divisor_, inputs[0]->grad);
  }

 private:
  Normalization normalization_ = Normalization::batch_size;
  ops::Channels over_{};
  Tensor probabilities_;
};

const RegisterLayer<SoftmaxCrossEntropyLossLayer> registered_softmax_cross_entropy_loss(
    "SoftmaxCrossEntropyLoss", {.about = "compares a softmax with a distribution (Colorization)",
                                .message = "softmax_param",
                                .examples = {"", "axis: -1"},
                                .inputs = {{4, 3, 2}, {4, 3, 2}}});

}  // namespace
}  // namespace banyan
