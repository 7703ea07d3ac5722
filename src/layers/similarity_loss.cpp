// Losses of how alike two blobs of one shape are; both get gradients.
//
// DiceCoefLoss (HolmesShuan): 1 less the coefficient of Dice of each two samples x and y, (2 x.y + 1) / (x.x
// + y.y + 1), summed up: this is the loss whose gradient the branch computes; it shows the mean. loss_param's
// normalization can divide the sum.
//
// CosineLoss: the mean of 1 - cos over the vectors along `axis`, cos being the cosine of the angle between
// those of the two blobs; 0 where one of them has no length. loss_param's normalization: VALID (absent) and
// FULL divide by the vectors of all devices, BATCH_SIZE by their samples.
#include "banyan/ops/similarity_loss.hpp"

#include "banyan/layers/loss.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class SimilarityLossLayer : public LossLayer {
 public:
  SimilarityLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options,
                      Normalization absent)
      : LossLayer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}),
        normalization_(read_normalization(absent)) {
    traits_.meets = meets_for(normalization_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    if (a.axes() < 1 || b.axes() < 1 || !fit(a, b))
      refuse("expected two blobs whose vectors are as many and as long; ", quoted(inputs[0]->name), " is ",
             a.to_string(), ", ", quoted(inputs[1]->name), " is ", b.to_string());
    over_ = vectors_of(a);
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor &a = inputs[0]->data, &b = inputs[1]->data;
    const std::int64_t positions = over_.outer * over_.inner;
    for (Tensor* tensor : {&products_, &squares_[0], &squares_[1], &own_[0], &own_[1], &other_})
      ensure(context, *tensor, Shape{positions}, DType::f64);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::dot_products(context, a, b, over_, 0, products_);
    ops::dot_products(context, a, a, over_, 0, squares_[0]);
    ops::dot_products(context, b, b, over_, 0, squares_[1]);
    compare(context);
    find_divisor(pass, normalization_, positions, inputs[0]->shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        ops::likeness_backward(*pass.context, inputs[i]->data, inputs[1 - i]->data, own(i), other_, over_,
                               outputs[0]->grad, divisor_, inputs[i]->grad);
  }

 protected:
  virtual ops::Channels vectors_of(const Shape& shape) const = 0;
  /// Whether the vectors are as many and as long.
  virtual bool fit(const Shape& a, const Shape& b) const = 0;
  /// partial_, own_ and other_ from products_ and squares_.
  virtual void compare(Context& context) = 0;
  virtual const Tensor& own(std::size_t i) const { return own_[i]; }

  Tensor products_, squares_[2], own_[2], other_;

 private:
  Normalization normalization_;
  ops::Channels over_{};
};

class DiceCoefLossLayer : public SimilarityLossLayer {
 public:
  DiceCoefLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SimilarityLossLayer(parameter, options, Normalization::none) {}

 private:
  ops::Channels vectors_of(const Shape& shape) const override { return {shape[0], shape.count(1), 1}; }
  bool fit(const Shape& a, const Shape& b) const override { return a[0] == b[0] && a.count() == b.count(); }
  void compare(Context& context) override {
    ops::dice_loss(context, products_, squares_[0], squares_[1], own_[0], other_, partial_);
  }
  const Tensor& own(std::size_t) const override { return own_[0]; }
};

class CosineLossLayer : public SimilarityLossLayer {
 public:
  CosineLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SimilarityLossLayer(parameter, options, Normalization::valid) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    axis_ = inputs[0]->shape.canonical_axis(parameter_.cosine_loss_param().axis());
    if (axis_ == 0) refuse("axis must not be 0, that of the samples");
  }

 private:
  ops::Channels vectors_of(const Shape& shape) const override {
    return {shape.count(0, axis_), shape[axis_], shape.count(axis_ + 1)};
  }
  bool fit(const Shape& a, const Shape& b) const override {
    if (b.axes() <= axis_) return false;
    const ops::Channels first = vectors_of(a), second = vectors_of(b);
    return first.outer == second.outer && first.channels == second.channels && first.inner == second.inner;
  }
  void compare(Context& context) override {
    ops::cosine_loss(context, products_, squares_[0], squares_[1], own_[0], own_[1], other_, partial_);
  }

  int axis_ = 1;
};

const RegisterLayer<DiceCoefLossLayer> registered_dice_coef_loss(
    "DiceCoefLoss",
    {.about = "1 less the coefficient of Dice of two blobs' samples", .message = "", .inputs = {{4}, {4}}});
const RegisterLayer<CosineLossLayer> registered_cosine_loss(
    "CosineLoss", {.about = "1 less the cosine of the angle between two vectors",
                   .message = "cosine_loss_param",
                   .examples = {"", "axis: 2"},
                   .inputs = {{4, 3}, {4, 3}}});

}  // namespace
}  // namespace banyan
