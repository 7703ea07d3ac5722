// What losses have in common that compare each element with a target.
//
// Inputs: predictions, targets, and where the layer takes them weights of the differences and of the losses.
#pragma once

#include "banyan/layers/loss.hpp"
#include "banyan/ops/target_loss.hpp"

namespace banyan {

class TargetLossLayer : public LossLayer {
 public:
  TargetLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int most_inputs,
                  int differentiable_inputs, const ops::TargetLoss& loss)
      : LossLayer(parameter, options,
                  {.arity = {2, most_inputs, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = differentiable_inputs,
                   .meets = Meets::forward}),
        loss_(loss) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& first = inputs[0]->shape;
    for (const Blob* input : inputs)
      if (input->shape.axes() < 1 || first.axes() < 1 || input->shape[0] != first[0] ||
          input->shape.count(1) != first.count(1))
        refuse("the inputs must have the same batch and the same count per sample; ", quoted(inputs[0]->name),
               " is ", first.to_string(), ", ", quoted(input->name), " is ", input->shape.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ensure(*pass.context, partial_, Shape{2}, DType::f64);
    ops::target_loss_forward(*pass.context, targets(inputs), loss_, partial_);
    find_divisor(pass, normalization_, positions(inputs[0]->shape), inputs[0]->shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        ops::target_loss_backward(*pass.context, targets(inputs), loss_, i == 0 ? 1 : -1, outputs[0]->grad,
                                  divisor_, inputs[i]->grad);
  }

 protected:
  Normalization normalization_ = Normalization::batch_size;
  ops::TargetLoss loss_;

  /// What FULL divides by.
  virtual std::int64_t positions(const Shape& shape) const { return shape.count(); }
  virtual ops::Targets targets(const Blobs& inputs) const {
    return {inputs[0]->data, inputs[1]->data, inputs.size() > 2 ? inputs[2]->data : Tensor(),
            inputs.size() > 3 ? inputs[3]->data : Tensor()};
  }
};

}  // namespace banyan
