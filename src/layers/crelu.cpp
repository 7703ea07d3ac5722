// CReLU (Shang et al. 2016): ReLU of the input, then ReLU of its negative, one after the other along
// concat_axis, which becomes twice as long. A negative_slope is that of both.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/functions.hpp"

namespace banyan {
namespace {

class CReluLayer : public Layer {
 public:
  CReluLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const int axis = input.canonical_axis(settings().concat_axis());
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().end());
    dims[static_cast<std::size_t>(axis)] *= 2;
    set_output(*outputs[0], Shape(dims));
    block_ = input.count(axis);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::crelu_forward(*pass.context, inputs[0]->data, slope(), block_, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::crelu_backward(*pass.context, inputs[0]->data, outputs[0]->grad, slope(), block_, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return static_cast<double>(outputs[0]->shape.count());
  }

 private:
  const caffe::CReLUParameter& settings() const { return parameter_.crelu_param(); }
  double slope() const { return settings().negative_slope(); }

  std::int64_t block_ = 0;
};

const RegisterLayer<CReluLayer> registered_crelu("CReLU", {"rectifiers of x and of -x (Shang et al. 2016)",
                                                           "crelu_param",
                                                           {"", "negative_slope: 0.25 concat_axis: -1"}});

}  // namespace
}  // namespace banyan
