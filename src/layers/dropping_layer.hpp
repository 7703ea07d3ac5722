// What Dropout and SpatialDropout have in common.
#pragma once

#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {

/// In training a part of the input becomes 0 and the rest is divided by 1 - ratio; in tests y = x unless
/// sample_weights_test (SegNet) is set. With scale_train: false both are multiplied by 1 - ratio.
class DroppingLayer : public ElementwiseLayer {
 public:
  DroppingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, false) {}

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    apply(pass, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) apply(pass, outputs[0]->grad, inputs[0]->grad);
  }

 protected:
  const caffe::DropoutParameter& settings() const { return parameter_.dropout_param(); }
  /// For setup().
  void set_ratio(double ratio) {
    if (!(ratio >= 0 && ratio < 1)) refuse("dropout_ratio must be at least 0 and below 1; found ", ratio);
    ratio_ = ratio;
    if (options().phase == Phase::test && !settings().sample_weights_test()) return;
    dropping_ = {ratio_, ops::stream_of(name().c_str()), {}};
    if (settings().random_seed() >= 0)  // NVIDIA: a seed for this layer
      dropping_.seed = static_cast<std::uint64_t>(settings().random_seed());
  }
  /// Sets a part of `from` to 0 and divides the rest by 1 - ratio.
  virtual void drop(Pass& pass, const Tensor& from, Tensor& to) = 0;

  double ratio_ = 0;
  Dropping dropping_;

 private:
  /// The layer is linear and diagonal: forward and backward are the same operator.
  void apply(Pass& pass, const Tensor& from, Tensor& to) {
    if (dropping_.on())
      drop(pass, from, to);
    else
      ops::copy(*pass.context, from, to);
    if (!settings().scale_train()) ops::axpby(*pass.context, 1 - ratio_, to, 0, to);
  }
};

}  // namespace banyan
