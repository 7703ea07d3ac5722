// What losses of NormFace (Wang et al. 2017) have in common. Inputs: distances (N x classes, further axes
// count as classes) of samples to the centers of all classes, labels (N). The sum is divided by N over all
// devices. A second output holds two means over the batch.
#pragma once

#include "banyan/layers/loss.hpp"
#include "banyan/ops/class_loss.hpp"
#include "labelled_samples.hpp"

namespace banyan {

class ClassDistancesLossLayer : public LossLayer {
 public:
  ClassDistancesLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options,
                          int most_inputs)
      : LossLayer(parameter, options,
                  {.arity = {2, most_inputs, 1, 2},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .label_input = 1,
                   .meets = Meets::forward}) {
    traits_.shares = 2;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = labelled_samples(inputs, [&](const auto&... why) { refuse(why...); });
    set_output(*outputs[0], Shape{});
    if (outputs.size() > 1) set_output(*outputs[1], Shape{2});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    for (Tensor* sums : {&partial_, &means_}) ensure(context, *sums, Shape{2}, DType::f64);
    add_up(context, inputs[0]->data, inputs[1]->data);
    find_divisor(pass, Normalization::batch_size, over_.outer, over_.outer);
    write_loss(pass, *outputs[0]);
    for (std::int64_t i = 0; i < 2 && outputs.size() > 1; ++i) {
      Tensor mean = outputs[1]->data.slice(i, Shape{1});
      ops::quotient(context, means_, divisor_, {i, 0, 1}, mean);
    }
  }

  void check_results(Context& context) override { note_.check(context, name(), over_); }

 protected:
  /// partial_, means_ and note_ of the local samples; means_ not yet divided by their number.
  virtual void add_up(Context& context, const Tensor& distances, const Tensor& labels) = 0;

  ops::Channels over_{};
  Tensor means_;  ///< f64 (2)
  LabelNote note_;
};

}  // namespace banyan
