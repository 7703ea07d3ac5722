// Dropout: in training y = x * keep / (1 - ratio), keep being 1 with probability 1 - ratio; in tests y = x
// unless sample_weights_test (SegNet) is set. With scale_train: false both are multiplied by 1 - ratio.
//
// What is kept is a function of (seed, layer name, draw, global sample, element), so no mask is stored, and a
// sample has the same mask whichever device holds it. Axis 0 is assumed to be the batch. If it is not (T x N
// sequences, regions of interest), an element's "global sample" depends on the device that holds it: training
// stays reproducible, but N devices no longer equal one device.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class DropoutLayer : public ElementwiseLayer {
 public:
  DropoutLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, false),
        ratio_(parameter.dropout_param().dropout_ratio()) {}

  void setup(const Blobs&, const Blobs&) override {
    const auto& settings = parameter_.dropout_param();
    if (!(ratio_ >= 0 && ratio_ < 1)) refuse("dropout_ratio must be at least 0 and below 1; found ", ratio_);
    if (options().phase == Phase::test && !settings.sample_weights_test()) return;
    dropping_ = {ratio_, ops::stream_of(name().c_str()), {}};
    if (settings.random_seed() >= 0)  // NVIDIA: a seed for this layer
      dropping_.seed = static_cast<std::uint64_t>(settings.random_seed());
    if (!settings.scale_train()) return;
    traits_.dropping = dropping_;
    if (dropping_.on()) traits_.fuses_activation_of_input = InputActivation::relu_by_output;
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    apply(pass, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    if (pass.fused.input.on())
      ops::activate_and_drop_backward(*pass.context, outputs[0]->data, outputs[0]->grad,
                                      pass.fused.input.slope, ratio_, dropping_.key(pass), pass.samples,
                                      inputs[0]->grad);
    else
      apply(pass, outputs[0]->grad, inputs[0]->grad);
  }

 private:
  /// The layer is linear and diagonal: forward and backward are the same operator.
  void apply(Pass& pass, const Tensor& from, Tensor& to) const {
    if (dropping_.on())
      ops::dropout(*pass.context, from, ratio_, dropping_.key(pass), pass.samples, to);
    else if (!from.same_memory(to))
      ops::copy(*pass.context, from, to);
    if (!parameter_.dropout_param().scale_train()) ops::axpby(*pass.context, 1 - ratio_, to, 0, to);
  }

  double ratio_;
  Dropping dropping_;
};

const RegisterLayer<DropoutLayer> registered("Dropout",
                                             {"sets random elements to 0 in training", "dropout_param"});

}  // namespace
}  // namespace banyan
