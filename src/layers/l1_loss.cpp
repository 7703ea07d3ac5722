// L1Loss (NVIDIA, FlowNet): sum |a - b| / N, N being the length of axis 0 over all devices; one input is the
// difference itself. Both inputs get gradients. With l1_loss_param numbers that are none do not count, with
// l2_per_location the length over the channels takes the place of |a - b|.
#include "banyan/ops/target_loss.hpp"
#include "location_loss_layer.hpp"

namespace banyan {
namespace {

class L1LossLayer : public LocationLossLayer {
 public:
  using LocationLossLayer::LocationLossLayer;

  void read_settings() override {
    if (parameter_.has_l1_loss_param()) refuse_divisors();
    const auto& s = parameter_.l1_loss_param();
    if (!(s.epsilon() >= 0) || !(s.plateau() >= 0))
      refuse("epsilon and plateau must not be negative; found ", s.epsilon(), " and ", s.plateau());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    plain_ = inputs.size() == 2 && !parameter_.has_l1_loss_param();
    const auto& s = parameter_.l1_loss_param();
    by_channels_ = s.l2_per_location();
    by_numbers_ = s.normalize_by_num_entries();
    if (by_channels_) {
      prescaled_ = s.l2_prescale_by_channels();
      loss_.second_shift = s.epsilon();
      loss_.plateau = static_cast<double>(s.plateau()) * s.plateau();
      powers_ = {{0, 2, 0.5, 1}};
    } else {
      loss_.plateau = s.plateau();
      powers_ = {{0, 1, 1, 1}};
    }
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (!plain_) return LocationLossLayer::forward(pass, inputs, outputs);
    ensure(*pass.context, partial_, Shape{2}, DType::f64);
    ops::target_loss_forward(*pass.context, targets(inputs), kAbsolute, partial_);
    find_divisor(pass, Normalization::batch_size, inputs[0]->shape.count(), inputs[0]->shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!plain_) return LocationLossLayer::backward(pass, outputs, propagate, inputs);
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        ops::target_loss_backward(*pass.context, targets(inputs), kAbsolute, i == 0 ? 1 : -1,
                                  outputs[0]->grad, divisor_, inputs[i]->grad);
  }

 private:
  static constexpr ops::TargetLoss kAbsolute{ops::TargetLoss::Kind::absolute};
  static ops::Targets targets(const Blobs& inputs) {
    return {inputs[0]->data, inputs[1]->data, Tensor(), Tensor()};
  }

  bool plain_ = true;
};

const RegisterLayer<L1LossLayer> registered_l1_loss(
    "L1Loss", {.about = "sum of absolute differences, or lengths of them, over the batch (NVIDIA, FlowNet)",
               .message = "l1_loss_param",
               .examples = {"", "l2_per_location: true", "normalize_by_num_entries: true"},
               .inputs = {{4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
