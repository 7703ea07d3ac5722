// What L1Loss (FlowNet) and LpqLoss (PWC-Net) have in common: the loss of each location of one blob, or of
// the difference of two, in which numbers that are none do not count (ops/location_loss.hpp).
#pragma once

#include <vector>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/location_loss.hpp"

namespace banyan {

class LocationLossLayer : public LossLayer {
 public:
  LocationLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {1, 2, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 2,
                   .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& first = inputs[0]->shape;
    for (const Blob* input : inputs)
      if (input->shape.axes() < 1 || first.axes() < 1 || input->shape[0] != first[0] ||
          input->shape.count(1) != first.count(1))
        refuse("the inputs must have the same batch and the same count per sample; ", quoted(inputs[0]->name),
               " is ", first.to_string(), ", ", quoted(input->name), " is ", input->shape.to_string());
    channels_ = first.axes() > 1 ? first[1] : 1;
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, partial_, Shape{2}, DType::f64);
    ensure(context, divisor_, Shape{1}, DType::f64);
    ensure(context, at_, Shape{2}, DType::f64);
    for (ops::PowersFrom from : powers_) {
      from.passes = pass.passes;
      ops::location_loss_powers(context, from, pass.draw_on_device, at_);
    }
    ops::location_loss_forward(context, pair(inputs), loss(), at_, partial_);
    if (by_numbers_)
      ops::axpby(context, 1.0 / static_cast<double>(channels_), partial_.slice(1, Shape{1}), 0, divisor_);
    else
      ops::fill(context, divisor_, static_cast<double>(inputs[0]->shape[0]));
    sum_over_devices(pass, divisor_, {name().c_str(), "divisor"});
    write_exact_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& scale = exact_scale(pass, *outputs[0]);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (propagate[i])
        ops::location_loss_backward(context, pair(inputs), loss(), at_, i == 0 ? 1 : -1, scale,
                                    inputs[i]->grad);
  }

 protected:
  void refuse_divisors() const {
    const caffe::LossParameter& loss = parameter_.loss_param();
    if (loss.has_normalization() || loss.has_normalize() || loss.has_ignore_label())
      refuse(
          "normalization, normalize and ignore_label of loss_param have no meaning here: numbers that are "
          "none do not count, "
          "and normalize_by_num_entries says what divides");
  }
  ops::LocationLoss loss_;
  bool prescaled_ = false;               ///< the sum over the channels is divided by their number
  bool by_channels_ = true;              ///< false: every number is a location of its own
  bool by_numbers_ = false;              ///< divide by the numbers that count, over the number of channels
  std::vector<ops::PowersFrom> powers_;  ///< in the order of their starts, the first of which is 0

 private:
  ops::LocationLoss loss() const {
    ops::LocationLoss loss = loss_;
    if (prescaled_) loss.factor = 1.0 / static_cast<double>(channels_);
    return loss;
  }
  ops::LocationPair pair(const Blobs& inputs) const {
    const Shape& x = inputs[0]->shape;
    const ops::Channels of_locations{x[0], channels_, x.axes() > 2 ? x.count(2) : 1};
    return {inputs[0]->data, inputs.size() > 1 ? inputs[1]->data : Tensor(),
            by_channels_ ? of_locations : ops::Channels{1, 1, x.count()}};
  }

  std::int64_t channels_ = 1;
  Tensor at_;  ///< p and q of this pass
};

}  // namespace banyan
