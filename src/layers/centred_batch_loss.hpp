// What losses have in common that are half the sum of the squares of covariances over the whole batch.
#pragma once

#include "banyan/ops/loss.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {

class CentredBatchLossLayer : public WholeBatchLossLayer {
 public:
  using WholeBatchLossLayer::WholeBatchLossLayer;

 protected:
  /// centred(i): whole(i) less the means over its samples.
  void centre(Context& context, std::size_t i) {
    const std::int64_t n = samples(i), d = whole(i).shape().count(1);
    const DType dtype = whole(i).dtype();
    ensure(context, ones_, Shape{n, 1}, dtype);
    ensure(context, means_, Shape{1, d}, dtype);
    ensure(context, centred_[i], whole(i).shape(), dtype);
    ops::fill(context, ones_, 1);
    ops::copy(context, whole(i), centred_[i]);
    ops::gemm(context, {true, false, 1, d, n}, 1.0 / static_cast<double>(n), ones_, whole(i), 0, means_);
    ops::gemm(context, {false, false, n, d, 1}, -1, ones_, means_, 1, centred_[i]);
  }
  const Tensor& centred(std::size_t i) const { return centred_[i]; }

  /// factor * grad_loss[0] * matrix, until the next call.
  const Tensor& scaled(Context& context, const Tensor& matrix, double factor, const Tensor& grad_loss) {
    ensure(context, scaled_, matrix.shape(), matrix.dtype());
    ensure(context, one_, Shape{1}, DType::f64);
    ops::fill(context, one_, 1);
    ops::euclidean_backward(context, matrix, factor, grad_loss, one_, scaled_);
    return scaled_;
  }

 private:
  Tensor ones_, means_, centred_[2], scaled_, one_;
};

}  // namespace banyan
