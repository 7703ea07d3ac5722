// Dropout: in training y = x * keep / (1 - ratio), keep being 1 with probability 1 - ratio; in tests y = x
// unless sample_weights_test (SegNet) is set. With scale_train: false both are multiplied by 1 - ratio.
//
// What is kept is a function of (seed, layer name, draw, global sample, element), so no mask is stored, and a
// sample has the same mask whichever device holds it. Axis 0 is assumed to be the batch. If it is not (T x N
// sequences, regions of interest), an element's "global sample" depends on the device that holds it: training
// stays reproducible, but N devices no longer equal one device.
#include "dropping_layer.hpp"

namespace banyan {
namespace {

class DropoutLayer : public DroppingLayer {
 public:
  using DroppingLayer::DroppingLayer;

  void read_settings() override {
    set_ratio(settings().dropout_ratio());
    if (!dropping_.on() || !settings().scale_train()) return;
    traits_.dropping = dropping_;
    traits_.fuses_activation_of_input = InputActivation::relu_by_output;
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0] && pass.fused.input.on())
      ops::activate_and_drop_backward(*pass.context, outputs[0]->data, outputs[0]->grad,
                                      pass.fused.input.slope, ratio_, dropping_.key(pass), pass.samples,
                                      inputs[0]->grad);
    else
      DroppingLayer::backward(pass, outputs, propagate, inputs);
  }

 protected:
  void drop(Pass& pass, const Tensor& from, Tensor& to) override {
    ops::dropout(*pass.context, from, ratio_, dropping_.key(pass), pass.samples, to);
  }
};

const RegisterLayer<DropoutLayer> registered_dropout("Dropout", {"sets random elements to 0 in training",
                                                                 "dropout_param"});

}  // namespace
}  // namespace banyan
