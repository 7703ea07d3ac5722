// ContrastiveLoss (Hadsell, Chopra, LeCun 2006) of pairs of vectors: with d their distance, d^2 for similar
// pairs and max(margin - d, 0)^2 for others (legacy_version: max(margin - d^2, 0)), summed and divided by 2
// N, N being the number of pairs over all devices. Inputs: vectors, vectors, and per pair whether they are
// similar (1) or not (0), or two labels (caffe-windows), whose whole parts are equal for similar pairs. The
// vectors get gradients; that of a dissimilar pair is divided by d + 1e-4 in place of d, as Caffe's is.
//
// DoubleMarginContrastiveLoss has two margins: max(d - margin_gen, 0)^2 for similar pairs, max(margin_imp -
// d, 0)^2 for others, with gradients divided by d + 1e-4 (that of similar pairs with a margin_gen of 0 is
// exact).
#include <cmath>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/distance_loss.hpp"

namespace banyan {
namespace {

class ContrastiveLossLayer : public LossLayer {
 public:
  ContrastiveLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {3, 4, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 2,
                   .label_input = 2,
                   .meets = Meets::forward}),
        margin_{parameter.contrastive_loss_param().margin(),
                parameter.contrastive_loss_param().legacy_version()} {
    if (type() != "DoubleMarginContrastiveLoss") return;
    traits_.arity.max_inputs = 3;
    margin_ = {two_margins().margin_imp(), false, two_margins().margin_gen()};
  }

  void read_settings() override {
    if (type() != "DoubleMarginContrastiveLoss") return;
    const auto& s = two_margins();
    if (!s.has_margin_gen() || !s.has_margin_imp()) refuse("needs margin_gen and margin_imp");
    if (!(s.margin_gen() >= 0) || !std::isfinite(s.margin_gen()) || !std::isfinite(s.margin_imp()))
      refuse("margin_gen must not be negative, and both margins finite; found ", s.margin_gen(), " and ",
             s.margin_imp());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    for (std::size_t i = 2; i < inputs.size(); ++i)
      if (const Shape& similar = inputs[i]->shape; a.axes() < 1 || !(a == b) || similar.count() != a[0])
        refuse("expected two blobs of one shape, and one number for each of their samples; found ",
               a.to_string(), ", ", b.to_string(), " and ", similar.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const std::int64_t pairs = inputs[0]->shape[0];
    for (Tensor* tensor : {&squares_, &factors_}) ensure(context, *tensor, Shape{pairs}, DType::f64);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::squared_distances(context, inputs[0]->data, inputs[1]->data, squares_);
    if (inputs.size() > 3) {
      ensure(context, similar_, Shape{pairs}, inputs[2]->data.dtype());
      ops::equal_labels(context, inputs[2]->data, inputs[3]->data, similar_);
    }
    const Tensor& similar = inputs.size() > 3 ? similar_ : inputs[2]->data;
    ops::contrastive_loss(context, squares_, similar, margin_, factors_, partial_);
    find_divisor(pass, Normalization::batch_size, pairs, pairs);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        ops::pair_backward(*pass.context, inputs[i]->data, inputs[1 - i]->data, factors_, outputs[0]->grad,
                           divisor_, inputs[i]->grad);
  }

 private:
  const caffe::DoubleMarginContrastiveLossParameter& two_margins() const {
    return parameter_.double_margin_contrastive_loss_param();
  }

  ops::PairMargin margin_;
  Tensor squares_, factors_;
  Tensor similar_;  ///< of two labels
};

const RegisterLayer<ContrastiveLossLayer> registered_contrastive_loss(
    "ContrastiveLoss", {.about = "pulls similar pairs of vectors together and others apart",
                        .message = "contrastive_loss_param",
                        .examples = {"", "margin: 3", "margin: 3 legacy_version: true"},
                        .inputs = {{4}, {4}, {}}});
const RegisterLayer<ContrastiveLossLayer> registered_double_margin_contrastive_loss(
    "DoubleMarginContrastiveLoss",
    {.about = "pulls similar pairs of vectors to one distance, pushes others to another",
     .message = "double_margin_contrastive_loss_param",
     .examples = {"margin_gen: 0.5 margin_imp: 3"},
     .inputs = {{4}, {4}, {}}});

}  // namespace
}  // namespace banyan
