// ReLU: y = x where x > 0, else negative_slope * x. The gradient at 0 is that of the slope's side. In Intel's
// Caffe a layer with `fuse` passes on what the layer before has rectified; without a slope that is the same.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class ReluLayer : public ElementwiseLayer {
 public:
  // The output has the input's sign unless the slope is negative.
  ReluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, parameter.relu_param().negative_slope() < 0,
                         parameter.relu_param().negative_slope() >= 0),
        slope_(parameter.relu_param().negative_slope()) {
    if (parameter.relu_param().fuse() && slope_ != 0)
      refuse(
          "relu_param.fuse with a negative_slope: the layer before has applied the slope already (Intel's "
          "fused nets); remove this layer");
    traits_.activation = ops::relu_activation(slope_);
    traits_.by_sample = true;
    traits_.fuses_dropout = true;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Tensor& x = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    if (const Dropping& dropping = pass.fused.dropping; dropping.on())
      ops::activate_and_drop(*pass.context, x, {}, traits_.activation, dropping.ratio, dropping.key(pass),
                             pass.samples, y);
    else
      ops::relu_forward(*pass.context, x, slope_, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    const Tensor& sign = slope_ >= 0 ? outputs[0]->data : inputs[0]->data;
    ops::relu_backward(*pass.context, sign, outputs[0]->grad, slope_, inputs[0]->grad);
  }

 private:
  double slope_;
};

const RegisterLayer<ReluLayer> registered_relu("ReLU",
                                               {"rectifier, leaky with a negative_slope", "relu_param"});

}  // namespace
}  // namespace banyan
