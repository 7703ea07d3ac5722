// SiLU: y = x * sigmoid(x) (Hendrycks, Gimpel 2016).
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class SiluLayer : public Layer {
 public:
  SiluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.layout = LayoutRule::follows, .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], inputs[0]->shape, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    ensure(context, sigmoid_, x.shape(), x.dtype(), x.layout());
    ops::sigmoid_forward(context, x, sigmoid_);
    ops::multiply(context, x, sigmoid_, outputs[0]->data);
  }

  // dx = dy * (s + x * s * (1 - s)), s being sigmoid(x)
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &dy = outputs[0]->grad;
    Tensor& dx = inputs[0]->grad;
    ensure(context, product_, x.shape(), x.dtype(), x.layout());
    ops::multiply(context, dy, x, product_);
    ops::sigmoid_backward(context, sigmoid_, product_, product_);
    ops::multiply(context, dy, sigmoid_, dx);
    ops::axpby(context, 1, product_, 1, dx);
  }

 private:
  Tensor sigmoid_, product_;
};

const RegisterLayer<SiluLayer> registered_silu("SiLU", {"x * sigmoid(x)", ""});

}  // namespace
}  // namespace banyan
