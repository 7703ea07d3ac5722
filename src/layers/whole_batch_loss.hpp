// What layers have in common that compare the samples of a batch with each other (losses), or remember them.
#pragma once

#include <utility>
#include <vector>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {

/// Every device computes the loss of the whole batch, so that N devices equal one, keeps the gradients of its
/// own samples, and shows a share of the loss. In training on several devices the host learns the number of
/// samples from them all: such a pass cannot be captured into a graph.
class WholeBatchLossLayer : public LossLayer {
 public:
  WholeBatchLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, LayerTraits traits)
      : LossLayer(parameter, options, std::move(traits)) {
    traits_.meets = Meets::forward;
  }

 protected:
  /// From now on whole(i) is input i of all devices, for the first `count` of them; of this device alone
  /// where the layer's traits say that it never meets others.
  void gather(Pass& pass, const Blobs& inputs, std::size_t count) {
    whole_.resize(count);
    const bool alone = pass.exchange == nullptr || traits_.meets == Meets::never;
    devices_ = alone ? 1 : pass.exchange->devices();
    if (devices_ > 1) return gather_from_devices(pass, inputs);
    for (std::size_t i = 0; i < count; ++i) whole_[i] = &inputs[i]->data;
  }
  void require_label_each(const Blobs& inputs) const {
    const Shape &x = inputs[0]->shape, &labels = inputs[1]->shape;
    if (x.axes() < 1 || labels.axes() < 1 || labels[0] != x[0] || labels.count() != x[0])
      refuse("expected one label for each sample of ", quoted(inputs[0]->name), ", which is ", x.to_string(),
             "; ", quoted(inputs[1]->name), " is ", labels.to_string());
  }
  const Tensor& whole(std::size_t i) const { return *whole_[i]; }
  std::int64_t samples(std::size_t i) const { return whole(i).shape()[0]; }

  /// loss[0]: this device's share of partial_[0] / divisor; divisor (f64, 1) may be undefined: 1.
  void write_share(Pass& pass, Blob& loss, const Tensor& divisor = {}) {
    Context& context = *pass.context;
    ensure(context, divisor_, Shape{1}, DType::f64);
    if (divisor.defined())
      ops::axpby(context, devices_, divisor, 0, divisor_);
    else
      ops::fill(context, divisor_, devices_);
    write_exact_loss(pass, loss);
  }

  /// write(dx) is to write the gradient of whole(i); that of the input is its own part.
  template <class Write>
  void write_gradient(Pass& pass, std::size_t i, Blob& input, const Write& write) {
    if (devices_ == 1) return write(input.grad);
    Context& context = *pass.context;
    ensure(context, gradient_, whole(i).shape(), whole(i).dtype());
    write(gradient_);
    const std::int64_t own = input.shape[0], length = input.shape.count(1);
    const auto [first, stride] = pass.samples;
    ops::copy_blocks(context, gradient_, input.grad,
                     {own, length, first * length, stride * length, 0, length});
  }

 private:
  /// Each device writes its samples into zeros, and these are added.
  void gather_from_devices(Pass& pass, const Blobs& inputs) {
    Context& context = *pass.context;
    const std::vector<double> totals = count_samples(pass, inputs);
    std::int64_t values = 0;
    for (std::size_t i = 0; i < whole_.size(); ++i)
      values += static_cast<std::int64_t>(totals[i]) * inputs[i]->shape.count(1);
    ensure(context, message_, Shape{values}, DType::f64);
    ops::fill(context, message_, 0);
    const auto [first, stride] = pass.samples;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const auto total = static_cast<std::int64_t>(totals[i]);
      const std::int64_t own = inputs[i]->shape[0], length = inputs[i]->shape.count(1);
      if (own > 0 && first + (own - 1) * stride >= total)
        refuse("on several devices the batch must be dealt sample by sample, as data layers do; input ",
               quoted(inputs[i]->name), " has ", own, " of ", total, " samples");
      if (own * length > 0) {
        ensure(context, own_, inputs[i]->shape, DType::f64);
        ops::copy(context, inputs[i]->data, own_);
        ops::copy_blocks(context, own_, message_,
                         {own, length, 0, length, offset + first * length, stride * length});
      }
      offset += total * length;
    }
    sum_over_devices(pass, message_, {name().c_str(), "samples"});
    kept_.resize(whole_.size());
    offset = 0;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const Shape shape{static_cast<std::int64_t>(totals[i]), inputs[i]->shape.count(1)};
      ensure(context, kept_[i], shape, dtype());
      ops::copy(context, message_.slice(offset, shape), kept_[i]);
      whole_[i] = &kept_[i];
      offset += shape.count();
    }
  }

  std::vector<double> count_samples(Pass& pass, const Blobs& inputs) {
    Context& context = *pass.context;
    std::vector<double> totals(whole_.size());
    ensure(context, counts_, Shape{static_cast<std::int64_t>(totals.size())}, DType::f64);
    for (std::size_t i = 0; i < totals.size(); ++i) {
      Tensor one = counts_.slice(static_cast<std::int64_t>(i), Shape{1});
      ops::fill(context, one, static_cast<double>(inputs[i]->shape[0]));
    }
    sum_over_devices(pass, counts_, {name().c_str(), "numbers of samples"});
    copy_to_host(context, counts_, totals.data());
    return totals;
  }

  int devices_ = 1;
  std::vector<const Tensor*> whole_;
  std::vector<Tensor> kept_;
  Tensor message_, own_, counts_, gradient_;
};

}  // namespace banyan
