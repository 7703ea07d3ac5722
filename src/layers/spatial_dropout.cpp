// SpatialDropout (ENet, Intel): Dropout of whole channels. In training y = x * keep / (1 - ratio), keep being
// one number for each channel of each sample, 1 with probability 1 - ratio; the rest is as in Dropout.
//
// The factors are Dropout's of an N x C blob of ones, so what is kept is a function of (seed, layer name,
// draw, global sample, channel). They are drawn again in the backward pass, which costs little beside the
// planes.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class SpatialDropoutLayer : public ElementwiseLayer {
 public:
  SpatialDropoutLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, false) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
    const auto& settings = parameter_.dropout_param();
    const bool intel = parameter_.has_spatial_dropout_param();
    if (intel && parameter_.has_dropout_param())
      refuse("dropout_param and spatial_dropout_param (Intel) say the same; keep one");
    ratio_ = intel ? parameter_.spatial_dropout_param().dropout_ratio() : settings.dropout_ratio();
    if (!(ratio_ >= 0 && ratio_ < 1)) refuse("dropout_ratio must be at least 0 and below 1; found ", ratio_);
    if (options().phase == Phase::test && !settings.sample_weights_test()) return;
    dropping_ = {ratio_, ops::stream_of(name().c_str()), {}};
    if (settings.random_seed() >= 0)  // NVIDIA: a seed for this layer
      dropping_.seed = static_cast<std::uint64_t>(settings.random_seed());
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    apply(pass, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) apply(pass, outputs[0]->grad, inputs[0]->grad);
  }

 private:
  /// The layer is linear and diagonal: forward and backward are the same operator.
  void apply(Pass& pass, const Tensor& from, Tensor& to) {
    Context& context = *pass.context;
    if (dropping_.on()) {
      ensure(context, factors_, Shape{from.shape()[0], from.shape()[1]}, dtype());
      ops::fill(context, factors_, 1);
      ops::dropout(context, factors_, ratio_, dropping_.key(pass), pass.samples, factors_);
      ops::scale_planes(context, from, factors_, {}, to);
    } else if (!from.same_memory(to)) {
      ops::copy(context, from, to);
    }
    if (!parameter_.dropout_param().scale_train()) ops::axpby(context, 1 - ratio_, to, 0, to);
  }

  double ratio_ = 0;
  Dropping dropping_;
  Tensor factors_;
};

const RegisterLayer<SpatialDropoutLayer> registered("SpatialDropout",
                                                    {"sets random channels to 0 in training",
                                                     "dropout_param"});

}  // namespace
}  // namespace banyan
