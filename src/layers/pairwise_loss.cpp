// PairwiseLoss (HashNet, Cao et al. 2017): codes (N x ...) and labels (N x classes) of one half of a batch,
// then those of the other half. With p the product of two codes times sigmoid_param, and two samples alike
// where the product of their labels is positive: log(1 + e^p), less p where they are alike, over all pairs of
// a sample of one half with one of the other; divided by the number of pairs. A pair that is alike counts
// class_num times; one whose labels' product is below 0, or not below the number of classes, does not count.
//
// The gradient is that of the branch: the sum counts 2 l_lambda / sigmoid_param times, and with
// continous_similarity pairs that are alike also 4 times the square of the cosine of their labels. The loss
// shown is the one with this gradient.
//
// With two inputs (DHN, Zhu et al. 2016) both halves are the whole batch: all pairs of its samples, each
// sample with itself too, count, and the gradient is that of the loss.
#include <cmath>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/pair_loss.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {
namespace {

class PairwiseLossLayer : public WholeBatchLossLayer {
 public:
  PairwiseLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WholeBatchLossLayer(parameter, options,
                            {.arity = {2, 4, 1, 1},
                             .backward_reads_outputs = false,
                             .differentiable_inputs = 3,
                             .constant_input = 1}) {}

  void read_settings() override {
    const auto& s = settings();
    if (!(s.sigmoid_param() > 0) || !std::isfinite(s.sigmoid_param()))
      refuse("sigmoid_param must be positive; found ", s.sigmoid_param());
    if (!(s.class_num() >= 0)) refuse("class_num must not be negative; found ", s.class_num());
    if (!(s.l_lambda() >= 0)) refuse("l_lambda must not be negative; found ", s.l_lambda());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& s = settings();
    if (inputs.size() == 3) refuse("takes codes and labels, of one set or of two; found 3 bottoms");
    of_one_set_ = inputs.size() == 2;
    if (of_one_set_ != s.has_threshold())
      refuse(of_one_set_
                 ? "two bottoms are those of DHN, whose pairwise_param has a threshold; others take four"
                 : "threshold is for two bottoms");
    factor_ = 2 * static_cast<double>(s.l_lambda());
    how_.alike = s.class_num();
    how_.continuous = s.continous_similarity();
    if (of_one_set_) factor_ *= s.sigmoid_param();
    how_.all = of_one_set_;
    how_.scale = of_one_set_ ? s.l_lambda() : factor_ / s.sigmoid_param();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &codes = inputs[0]->shape, &labels = inputs[1]->shape;
    if (codes.axes() < 1 || labels.axes() < 1 || labels[0] != codes[0])
      refuse("expected codes and a row of labels for each; found ", codes.to_string(), " and ",
             labels.to_string());
    if (!of_one_set_ && (inputs[2]->shape != codes || inputs[3]->shape != labels))
      refuse("expected codes and labels of half a batch and then of the other half; found ",
             codes.to_string(), ", ", labels.to_string(), ", ", inputs[2]->shape.to_string(), " and ",
             inputs[3]->shape.to_string());
    how_.labels = labels.count(1);
    if (how_.labels < 2)
      refuse("each sample's label must be a vector, with a number for each class; ", quoted(inputs[1]->name),
             " is ", labels.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, inputs.size());
    for (Tensor* pairs : {&products_, &factors_})
      ensure(context, *pairs, Shape{samples(0), samples(0)}, dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    if (samples(0) > 0)
      ops::gemm(context, {false, true, samples(0), samples(0), inputs[0]->shape.count(1)},
                settings().sigmoid_param(), whole(0), whole(other(0)), 0, products_);
    ops::pairwise_loss(context, products_, whole(1), whole(other(1)), how_, factors_, partial_);
    write_share(pass, *outputs[0], partial_.slice(1, Shape{1}));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const std::int64_t length = inputs[0]->shape.count(1);
    if (samples(0) * length == 0) return;
    ensure(context, grad_loss_, Shape{1}, DType::f64);
    ensure(context, scale_, Shape{1}, dtype());
    ops::copy(context, outputs[0]->grad.reshaped(Shape{1}), grad_loss_);
    ops::quotient(context, grad_loss_, partial_, {0, 1, 0}, scale_);
    for (std::size_t i = 0; i < inputs.size(); i += 2) {
      if (!propagate[i]) continue;
      write_gradient(pass, i, *inputs[i], [&](Tensor& dx) {
        ops::gemm(context, {i == 2, false, samples(0), length, samples(0)}, factor_, factors_,
                  whole(other(i)), 0, dx);
        ops::scale_bias(context, dx, scale_, none_, {1, 1, dx.count()}, {}, dx);
      });
    }
  }

 private:
  const caffe::PairwiseParameter& settings() const { return parameter_.pairwise_param(); }

  /// The input of the other set that is what input i is of its own.
  std::size_t other(std::size_t i) const { return of_one_set_ ? i : (i + 2) % 4; }

  bool of_one_set_ = false;
  double factor_ = 2;
  ops::LabelledPairs how_;
  Tensor products_, factors_, grad_loss_, scale_, none_;
};

const RegisterLayer<PairwiseLossLayer> registered_pairwise_loss(
    "PairwiseLoss",
    {.about = "binary codes: products large for pairs with a label in common, else small (HashNet)",
     .message = "pairwise_param",
     .examples = {"", "class_num: 3 sigmoid_param: 0.5 l_lambda: 0.25 continous_similarity: true"},
     .inputs = {{4}, {5}, {4}, {5}}});

}  // namespace
}  // namespace banyan
