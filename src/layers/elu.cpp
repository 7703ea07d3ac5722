// ELU: y = lambda * (x > 0 ? x : alpha * (exp(x) - 1)); lambda is NVIDIA's, else 1. The gradient at 0 is that
// of the negative side, as in Caffe.
#include "banyan/ops/elementwise.hpp"
#include "elementwise_layer.hpp"

namespace banyan {
namespace {

class EluLayer : public ElementwiseLayer {
 public:
  EluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ElementwiseLayer(parameter, options, false, true),
        shape_{parameter.elu_param().alpha(), parameter.elu_param().lambda()} {
    traits_.activation = ops::elu_activation(shape_);
  }

  void setup(const Blobs&, const Blobs&) override {
    if (!(shape_.alpha >= 0)) refuse("alpha must not be negative; found ", shape_.alpha);
    if (!(shape_.lambda > 0)) refuse("lambda must be positive; found ", shape_.lambda);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::elu_forward(*pass.context, inputs[0]->data, shape_, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::elu_backward(*pass.context, outputs[0]->data, outputs[0]->grad, shape_, inputs[0]->grad);
  }

 private:
  ops::EluShape shape_;
};

const RegisterLayer<EluLayer> registered("ELU", {"exponential linear unit", "elu_param"});

}  // namespace
}  // namespace banyan
