// SmoothL1Loss (Girshick 2015): sum w_out * f(w_in * (a - b)) / N, where f(d) is (sigma d)^2 / 2 for |d| < 1
// / sigma^2 and |d| - 1 / (2 sigma^2) beyond, and N is the length of axis 0 over all devices. Inputs: a, b,
// and if given w_in, w_out. a and b get gradients.
#include "target_loss_layer.hpp"

namespace banyan {
namespace {

class SmoothL1LossLayer : public TargetLossLayer {
 public:
  SmoothL1LossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : TargetLossLayer(parameter, options, 4, 2,
                        {ops::TargetLoss::Kind::smooth_absolute, parameter.smooth_l1_loss_param().sigma()}) {}

  void read_settings() override {
    if (!(loss_.sigma > 0)) refuse("sigma must be positive; found ", loss_.sigma);
  }
};

const RegisterLayer<SmoothL1LossLayer> registered_smooth_l1_loss(
    "SmoothL1Loss", {.about = "absolute difference of two blobs, squared near 0, with or without weights",
                     .message = "smooth_l1_loss_param",
                     .examples = {"", "sigma: 2"},
                     .inputs = {{4, 5}, {4, 5}, {4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
