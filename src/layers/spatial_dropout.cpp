// SpatialDropout (ENet, Intel): Dropout of whole channels. In training y = x * keep / (1 - ratio), keep being
// one number for each channel of each sample, 1 with probability 1 - ratio; the rest is as in Dropout.
//
// The factors are Dropout's of an N x C blob of ones, so what is kept is a function of (seed, layer name,
// draw, global sample, channel). They are drawn again in the backward pass, which costs little beside the
// planes.
#include "dropping_layer.hpp"

namespace banyan {
namespace {

class SpatialDropoutLayer : public DroppingLayer {
 public:
  using DroppingLayer::DroppingLayer;

  void read_settings() override {
    const bool intel = parameter_.has_spatial_dropout_param();
    if (intel && parameter_.has_dropout_param())
      refuse("dropout_param and spatial_dropout_param (Intel) say the same; keep one");
    set_ratio(intel ? parameter_.spatial_dropout_param().dropout_ratio() : settings().dropout_ratio());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs[0]->shape.axes() < 2) refuse("the input needs an axis of channels, axis 1");
  }

 protected:
  void drop(Pass& pass, const Tensor& from, Tensor& to) override {
    Context& context = *pass.context;
    ensure(context, factors_, Shape{from.shape()[0], from.shape()[1]}, dtype());
    ops::fill(context, factors_, 1);
    ops::dropout(context, factors_, ratio_, dropping_.key(pass), pass.samples, factors_);
    ops::scale_planes(context, from, factors_, {}, to);
  }

 private:
  Tensor factors_;
};

const RegisterLayer<SpatialDropoutLayer> registered_spatial_dropout(
    "SpatialDropout", {.about = "sets random channels to 0 in training",
                       .message = "dropout_param",
                       .further = {"spatial_dropout_param"}});

}  // namespace
}  // namespace banyan
