// QuantizationLoss (DHN, Zhu et al. 2016): log(cosh(|x| - 1)), summed and divided by N, the number of samples
// over all devices; it draws values to 1 and -1. The gradient is that of the branch: tanh(|x| - 1) with the
// sign of x (that of 0 is +), over N. The loss shown is the one with this gradient; the branch divides what
// it shows by the number of values.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/target_loss.hpp"

namespace banyan {
namespace {

class QuantizationLossLayer : public LossLayer {
 public:
  QuantizationLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options, {.backward_reads_outputs = false, .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    if (inputs[0]->shape.axes() < 1)
      refuse("input ", quoted(inputs[0]->name), " must have an axis of samples");
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ensure(*pass.context, partial_, Shape{2}, DType::f64);
    ops::quantization_loss_forward(*pass.context, inputs[0]->data, partial_);
    find_divisor(pass, Normalization::batch_size, 1, inputs[0]->shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::quantization_loss_backward(*pass.context, inputs[0]->data, outputs[0]->grad, divisor_,
                                      inputs[0]->grad);
  }
};

const RegisterLayer<QuantizationLossLayer> registered_quantization_loss(
    "QuantizationLoss", {.about = "draws values to 1 and -1, for binary codes (DHN)",
                         .message = "",
                         .examples = {""},
                         .inputs = {{4}}});

}  // namespace
}  // namespace banyan
