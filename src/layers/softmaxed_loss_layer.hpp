// What losses have in common that compare the softmax of scores along one axis with a label for each position
// outside that axis. Inputs: scores, labels, perhaps more. The sum over the positions whose label is not
// ignore_label is divided as loss_param says (VALID unless given). A second output holds the probabilities.
#pragma once

#include "banyan/layers/loss.hpp"
#include "softmax_axes.hpp"

namespace banyan {

class SoftmaxedLossLayer : public LossLayer {
 public:
  SoftmaxedLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int most_inputs,
                     bool takes_class_weights = false)
      : LossLayer(parameter, options,
                  {.arity = {2, most_inputs, 1, 2}, .differentiable_inputs = 1, .label_input = 1},
                  takes_class_weights) {}

  void read_settings() override {
    require_softmax(parameter_.softmax_param(), [&](const auto&... why) { refuse(why...); });
    const auto& loss = parameter_.loss_param();
    normalization_ = read_normalization(Normalization::valid);
    traits_.meets = meets_for(normalization_);
    ignore_ = {loss.has_ignore_label(), loss.ignore_label()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = channels_along(inputs[0]->shape, axis());
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
    add_up(context, probabilities, inputs);
    find_divisor(pass, normalization_, over_.outer * over_.inner, over_.outer);
    write_loss(pass, *outputs[0]);
  }

  void check_results(Context& context) override { note_.check(context, name(), over_, "loss_param"); }

 protected:
  void refuse_label_smoothing() const {
    if (parameter_.loss_param().label_smoothing() != 0) refuse("label_smoothing is not supported");
  }
  void refuse_thresh_ratio() const {
    if (parameter_.loss_param().thresh_ratio() != 1)
      refuse("thresh_ratio (yjxiong) is a setting of SoftmaxWithLoss only");
  }
  /// Of the classes.
  virtual int axis() const = 0;
  /// partial_ and note_ of the local positions.
  virtual void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) = 0;

  Tensor& probabilities_of(const Blobs& outputs) {
    return outputs.size() > 1 ? outputs[1]->data : probabilities_;
  }

  ops::IgnoreLabel ignore_;
  ops::Channels over_{};
  LabelNote note_;
  Normalization normalization_ = Normalization::valid;

 private:
  Tensor probabilities_;
};

}  // namespace banyan
