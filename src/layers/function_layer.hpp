// What layers have in common that are a function of one element.
#pragma once

#include <cmath>

#include "banyan/ops/functions.hpp"
#include "elementwise_layer.hpp"

namespace banyan {

class FunctionLayer : public ElementwiseLayer {
 public:
  FunctionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options,
                const ops::Function& function)
      : ElementwiseLayer(parameter, options, function.slope() == ops::Function::Slope::of_input,
                         function.slope() == ops::Function::Slope::of_output),
        function_(function) {
    traits_.by_sample = true;
    // As other frameworks have it: what often ends in a loss of the user's own making.
    using Kind = ops::Function::Kind;
    if (function.kind == Kind::power || function.kind == Kind::exponential ||
        function.kind == Kind::logarithm || function.kind == Kind::softplus ||
        function.kind == Kind::negative_square)
      traits_.storage = StorageRule::full;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::apply_function(*pass.context, inputs[0]->data, function_, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor& dy = outputs[0]->grad;
    const Tensor& seen = traits_.backward_reads_inputs    ? inputs[0]->data
                         : traits_.backward_reads_outputs ? outputs[0]->data
                                                          : dy;
    ops::apply_slope(*pass.context, seen, dy, function_, inputs[0]->grad);
  }

 protected:
  /// The natural logarithm of the `base` of Exp and Log, which is e where the file says -1.
  double log_of_base(double base) const {
    if (base == -1) return 1;
    if (!(base > 0)) refuse("base must be positive, or -1 for e; found ", base);
    return std::log(base);
  }

  /// The function becomes base^(shift + scale x).
  void raise(const caffe::ExpParameter& settings) {
    const double logarithm = log_of_base(settings.base());
    function_.a = logarithm * settings.scale();
    function_.b = logarithm * settings.shift();
  }

  ops::Function function_;
};

}  // namespace banyan
