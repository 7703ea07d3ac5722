// Every registered layer with its examples, and what a batch gives.
#pragma once

#include "banyan/tensor/bfloat16.hpp"
#include "layers/bench.hpp"

namespace banyan::testing {

struct AnyBatch {
  std::string text;
  std::vector<Shape> samples;
  int outputs = 1;
  bool whole_numbers = false;  ///< in the inputs that are not differentiable

  std::vector<Shape> shapes(std::int64_t batch) const {
    std::vector<Shape> all;
    for (const Shape& sample : samples) all.push_back(with_batch(batch, sample));
    return all;
  }
};

/// Every registered layer with each of its examples. Classifiers get scores of 4 classes and labels.
inline std::vector<AnyBatch> every_layer() {
  static const Shape kSample{4, 5, 5};
  std::vector<AnyBatch> all;
  for (const std::string& type : registered_layer_types()) {
    const LayerInfo& info = layer_info(type);
    for (const std::string& example : info.examples) {
      AnyBatch tested;
      tested.text = cat("type: '", type, "' ");
      if (!example.empty()) tested.text += cat(info.message, " { ", example, " }");
      const LayerTraits traits = make_layer(layer_from_text(tested.text), {})->traits();
      tested.samples.assign(static_cast<std::size_t>(traits.arity.min_inputs), kSample);
      if (traits.differentiable_inputs >= 0 && traits.arity.min_inputs == 2)
        tested.samples = {Shape{4}, Shape{}};
      if (!info.inputs.empty()) tested.samples = info.inputs, tested.whole_numbers = true;
      tested.outputs = traits.arity.outputs_equal_inputs ? traits.arity.min_inputs
                       : traits.arity.max_outputs >= 0   ? traits.arity.max_outputs
                                                         : 2;
      all.push_back(tested);
    }
  }
  EXPECT_GE(all.size(), 30u);
  return all;
}

inline Values as_they_are(Values values) { return values; }
inline Values as_shares(Values values) {
  for (double& value : values) value = 0.5 + value / 4;
  return values;
}
inline Values rounded_to_bf16(Values values) {
  for (double& value : values) value = BFloat16(static_cast<float>(value));
  return values;
}

inline void set_inputs(Bench& bench, const AnyBatch& tested, std::int64_t batch, Values (*prepared)(Values)) {
  for (std::size_t i = 0; i < bench.inputs.size(); ++i) {
    const std::int64_t count = batch * tested.samples[i].count();
    const bool scores = tested.samples[i].axes() > 0 && !tested.whole_numbers;
    bench.set_input(i, bench.layer().traits().differentiable(static_cast<int>(i)) || scores
                           ? prepared(spread_values(count, static_cast<unsigned>(i + 1)))
                           : integers(count, 4, 1));
  }
}

/// Outputs and gradients for a batch. `prepared`: applied to inputs and gradients first.
inline std::vector<Values> run_batch(Bench& bench, const AnyBatch& tested, std::int64_t batch,
                                     Values (*prepared)(Values) = &as_they_are) {
  set_inputs(bench, tested, batch, prepared);
  bench.zero_parameter_gradients();
  bench.pass.update_statistics = false;  // nothing of the batch before
  bench.forward();
  std::vector<Values> results, gradients;
  for (std::size_t i = 0; i < bench.outputs.size(); ++i) {
    results.push_back(bench.output(i));
    gradients.push_back(prepared(spread_values(bench.outputs[i]->shape.count(), 9)));
  }
  bench.backward(gradients);
  for (std::size_t i = 0; i < bench.inputs.size(); ++i)
    if (bench.layer().traits().differentiable(static_cast<int>(i)))
      results.push_back(bench.input_gradient(i));
  for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
    if (bench.layer().parameters()[p].grad.defined()) results.push_back(bench.parameter_gradient(p));
  return results;
}

}  // namespace banyan::testing
