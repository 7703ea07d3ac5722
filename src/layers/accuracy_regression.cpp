// AccuracyRegression (branches): half the sum of |prediction - label|, by the number of samples; so for the
// two coordinates of a point the mean of their distances. It has no gradient.
//
// In training on several devices the output is the device's share: its own sum by all devices' samples.
#include "banyan/ops/basic.hpp"
#include "target_loss_layer.hpp"

namespace banyan {
namespace {

class AccuracyRegressionLayer : public TargetLossLayer {
 public:
  AccuracyRegressionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : TargetLossLayer(parameter, options, 2, 0, {ops::TargetLoss::Kind::absolute}) {
    traits_.loss = false;
    traits_.differentiable_outputs = 0;
  }

  void read_settings() override { traits_.meets = meets_for(normalization_); }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    TargetLossLayer::forward(pass, inputs, outputs);
    ops::axpby(*pass.context, 0.5, outputs[0]->data, 0, outputs[0]->data);
  }
};

const RegisterLayer<AccuracyRegressionLayer> registered_accuracy_regression(
    "AccuracyRegression", {.about = "half the mean over samples of the absolute differences (branches)",
                           .message = "accuracy_param",
                           .examples = {""},
                           .inputs = {{4, 6}, {4, 6}}});

}  // namespace
}  // namespace banyan
