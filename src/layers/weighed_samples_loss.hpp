// What losses have in common whose value the host finds from numbers that compare each two samples x (N x
// ...) with labels (N), and whose gradient of all samples is W x, W being weights of each two.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "banyan/ops/elementwise.hpp"
#include "banyan/tensor/values.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {

class WeighedSamplesLossLayer : public WholeBatchLossLayer {
 public:
  WeighedSamplesLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WholeBatchLossLayer(parameter, options,
                            {.arity = {2, 2, 1, 1},
                             .backward_reads_outputs = false,
                             .differentiable_inputs = 1,
                             .label_input = 1}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    require_label_each(inputs);
    set_output(*outputs[0], Shape{});
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0] || whole(0).count() == 0) return;
    Context& context = *pass.context;
    write_gradient(pass, 0, *inputs[0], [&](Tensor& dx) {
      const std::int64_t total = samples(0), length = whole(0).count() / total;
      ops::gemm(context, {false, false, total, length, total}, 1, weights_, whole(0), 0, dx);
      ops::scale_bias(context, dx, outputs[0]->grad, none_, {1, 1, dx.count()}, {}, dx);
    });
  }

 protected:
  /// Shows loss / divisor and keeps weights / divisor, which are 0 if the divisor is; both are NaN if one of
  /// the `compared` numbers, of each two samples, is not finite.
  void finish(Pass& pass, Blob& output, double loss, std::vector<double> weights,
              const std::vector<double>& compared, double divisor) {
    Context& context = *pass.context;
    const auto divided = [&](double value) { return divisor > 0 ? value / divisor : 0; };
    loss = divided(loss);
    std::transform(weights.begin(), weights.end(), weights.begin(), divided);
    if (std::any_of(compared.begin(), compared.end(), [](double value) { return !std::isfinite(value); })) {
      loss = std::numeric_limits<double>::quiet_NaN();
      std::fill(weights.begin(), weights.end(), loss);
    }
    ensure(context, weights_, Shape{samples(0), samples(0)}, dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    set_values(context, weights, weights_);
    set_values(context, {loss, 0}, partial_);
    write_share(pass, output);
  }

 private:
  Tensor weights_, none_;
};

}  // namespace banyan
