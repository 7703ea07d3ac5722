// SmoothL1LossOHEM (R-FCN): SmoothL1Loss of N x C x ... predictions and targets, and inside weights if given,
// divided as loss_param says: by N, or by all positions N x ... (VALID, FULL), or by pre_fixed_normalizer. A
// second output, N x 1 x ... of four axes at least, holds the loss of each position, the sum over its
// channels. No gradient flows through it.
#include "softmax_axes.hpp"
#include "target_loss_layer.hpp"

namespace banyan {
namespace {

class SmoothL1LossOhemLayer : public TargetLossLayer {
 public:
  SmoothL1LossOhemLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : TargetLossLayer(parameter, options, 3, 2,
                        {ops::TargetLoss::Kind::smooth_absolute, parameter.smooth_l1_loss_param().sigma()}) {
    traits_.arity.max_outputs = 2;
  }

  void read_settings() override {
    if (!(loss_.sigma > 0)) refuse("sigma must be positive; found ", loss_.sigma);
    if (parameter_.loss_param().has_ignore_label())
      refuse("takes no ignore_label: its targets are no labels");
    normalization_ = read_normalization(Normalization::full);
    if (normalization_ == Normalization::valid) normalization_ = Normalization::full;
    traits_.meets = meets_for(normalization_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    TargetLossLayer::reshape(inputs, outputs);
    if (inputs[0]->shape.axes() < 2) refuse("expected at least 2 axes; found ", inputs[0]->shape.to_string());
    over_ = channels_along(inputs[0]->shape, 1);
    if (outputs.size() < 2) return;
    std::vector<std::int64_t> positions = inputs[0]->shape.dims();
    positions[1] = 1;
    positions.resize(std::max<std::size_t>(positions.size(), 4), 1);
    set_output(*outputs[1], Shape(positions));
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    TargetLossLayer::forward(pass, inputs, outputs);
    if (outputs.size() > 1)
      ops::target_losses(*pass.context, targets(inputs), loss_, over_, outputs[1]->data);
  }

 private:
  std::int64_t positions(const Shape&) const override { return over_.outer * over_.inner; }

  ops::Channels over_{};
};

const RegisterLayer<SmoothL1LossOhemLayer> registered_smooth_l1_loss_ohem(
    "SmoothL1LossOHEM", {.about = "SmoothL1Loss that shows each position's loss (R-FCN)",
                         .message = "smooth_l1_loss_param",
                         .examples = {"", "sigma: 2"},
                         .inputs = {{4, 5}, {4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
