// L1Loss (NVIDIA): sum |a - b| / N, N being the length of axis 0 over all devices. Both inputs get gradients.
#include "target_loss_layer.hpp"

namespace banyan {
namespace {

class L1LossLayer : public TargetLossLayer {
 public:
  L1LossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : TargetLossLayer(parameter, options, 2, 2, {ops::TargetLoss::Kind::absolute}) {}
};

const RegisterLayer<L1LossLayer> registered_l1_loss(
    "L1Loss", {.about = "mean absolute difference of two blobs", .message = "", .inputs = {{4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
