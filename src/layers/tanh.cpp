// TanH: y = tanh(x).
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class TanHLayer : public ElementwiseLayer {
 public:
  TanHLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, true) {}

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::tanh_forward(*pass.context, inputs[0]->data, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::tanh_backward(*pass.context, outputs[0]->data, outputs[0]->grad, inputs[0]->grad);
  }
};

const RegisterLayer<TanHLayer> registered_tanh("TanH", {"hyperbolic tangent", "tanh_param"});

}  // namespace
}  // namespace banyan
