// ELU: y = lambda * (x > 0 ? x : alpha * (exp(x) - 1)); lambda is NVIDIA's, else 1. The gradient at 0 is that
// of the negative side, as in Caffe. With a negative alpha the output does not tell the sides apart: the
// gradient is computed from the input, and the layer is no activation that others can fuse.
#include <cmath>

#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class EluLayer : public ElementwiseLayer {
 public:
  EluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, by_input(parameter), !by_input(parameter)),
        shape_{parameter.elu_param().alpha(), parameter.elu_param().lambda()} {
    traits_.by_sample = true;
    if (!by_input(parameter)) traits_.activation = ops::elu_activation(shape_);
  }

  void read_settings() override {
    if (!std::isfinite(shape_.alpha)) refuse("alpha must be a finite number; found ", shape_.alpha);
    if (!(shape_.lambda > 0)) refuse("lambda must be positive; found ", shape_.lambda);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::elu_forward(*pass.context, inputs[0]->data, shape_, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    if (by_input(parameter_))
      ops::elu_backward_by_input(*pass.context, inputs[0]->data, outputs[0]->grad, shape_, inputs[0]->grad);
    else
      ops::elu_backward(*pass.context, outputs[0]->data, outputs[0]->grad, shape_, inputs[0]->grad);
  }

 private:
  static bool by_input(const caffe::LayerParameter& parameter) { return parameter.elu_param().alpha() < 0; }

  ops::EluShape shape_;
};

const RegisterLayer<EluLayer> registered_elu("ELU", {"exponential linear unit", "elu_param"});

}  // namespace
}  // namespace banyan
