// What losses have in common that compare the scores of each sample with one label. Inputs: scores (N x
// classes, further axes count as classes), labels (N). The sum is divided by N over all devices.
#pragma once

#include "banyan/layers/loss.hpp"
#include "banyan/ops/class_loss.hpp"
#include "labelled_samples.hpp"

namespace banyan {

class ClassLossLayer : public LossLayer {
 public:
  ClassLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .label_input = 1,
                   .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = labelled_samples(inputs, [&](const auto&... why) { refuse(why...); });
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ensure(*pass.context, partial_, Shape{2}, DType::f64);
    add_up(*pass.context, inputs[0]->data, inputs[1]->data);
    find_divisor(pass, Normalization::batch_size, over_.outer, over_.outer);
    write_loss(pass, *outputs[0]);
  }

  void check_results(Context& context) override { note_.check(context, name(), over_); }

 protected:
  /// partial_ and note_ of the local samples.
  virtual void add_up(Context& context, const Tensor& scores, const Tensor& labels) = 0;

  ops::Channels over_{};
  LabelNote note_;
};

}  // namespace banyan
