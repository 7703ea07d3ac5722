// HashingLoss (DSH, Liu et al. 2016): vectors of N samples, and their labels. For each pair of samples with
// the same label, or with labels (a vector of several for each sample) whose product is positive, half of
// their squared distance d; for others max(0, bi_margin - d) / 2; summed and divided by N (N - 1). Plus
// tradeoff / N times the sum of ||x| - 1|, which draws values to 1 and -1. The gradient is that of the
// branch, which shows the pairs' part twice as large.
#include "banyan/ops/distance_loss.hpp"
#include "banyan/ops/pair_loss.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {
namespace {

class HashingLossLayer : public WholeBatchLossLayer {
 public:
  HashingLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WholeBatchLossLayer(parameter, options,
                            {.arity = {2, 2, 1, 1},
                             .backward_reads_outputs = false,
                             .differentiable_inputs = 1,
                             .label_input = 1}) {
    how_.margin = parameter_.hashing_loss_param().bi_margin();
    how_.tradeoff = parameter_.hashing_loss_param().tradeoff();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &x = inputs[0]->shape, &labels = inputs[1]->shape;
    if (x.axes() < 1 || labels.axes() < 1 || labels[0] != x[0] || labels.count(1) < 1)
      refuse("expected one or more labels for each sample of ", quoted(inputs[0]->name), ", which is ",
             x.to_string(), "; ", quoted(inputs[1]->name), " is ", labels.to_string());
    how_.labels = labels.count(1);
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, 2);
    const Tensor& x = whole(0);
    for (Tensor* pairs : {&squares_, &factors_})
      ensure(context, *pairs, Shape{samples(0), samples(0)}, x.dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::distances_to_rows(context, x, x, false, x.shape().count(1), squares_);
    ops::hashing_loss(context, x, squares_, whole(1), how_, factors_, partial_);
    write_share(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    write_gradient(pass, 0, *inputs[0], [&](Tensor& dx) {
      ops::hashing_backward(*pass.context, whole(0), factors_, how_.tradeoff, outputs[0]->grad, dx);
    });
  }

 private:
  ops::Hashing how_;
  Tensor squares_, factors_;
};

const RegisterLayer<HashingLossLayer> registered_hashing_loss(
    "HashingLoss", {.about = "binary codes: alike for samples with the same label, else apart (DSH)",
                    .message = "hashing_loss_param",
                    .examples = {"", "bi_margin: 8 tradeoff: 0.5"},
                    .inputs = {{4}, {}}});

}  // namespace
}  // namespace banyan
