// EuclideanLoss: sum (a - b)^2 / (2 N), N being the length of axis 0 over all devices. Both inputs get
// gradients.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class EuclideanLossLayer : public LossLayer {
 public:
  EuclideanLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1},
                   .backward_reads_inputs = false,
                   .backward_reads_outputs = false,
                   .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    if (a.axes() < 1 || b.axes() < 1 || a[0] != b[0] || a.count(1) != b.count(1))
      refuse("the inputs must have the same batch and the same count per sample; ", quoted(inputs[0]->name),
             " is ", a.to_string(), ", ", quoted(inputs[1]->name), " is ", b.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& a = inputs[0]->data;
    ensure(context, difference_, a.shape(), dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::euclidean_forward(context, a, inputs[1]->data.reshaped(a.shape()), difference_, partial_);
    const std::int64_t samples = inputs[0]->shape[0];
    find_divisor(pass, Normalization::batch_size, samples, samples);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!propagate[i]) continue;
      Tensor grad = inputs[i]->grad.reshaped(difference_.shape());
      ops::euclidean_backward(*pass.context, difference_, i == 0 ? 1 : -1, outputs[0]->grad, divisor_, grad);
    }
  }

 private:
  Tensor difference_;
};

const RegisterLayer<EuclideanLossLayer> registered_euclidean_loss(
    "EuclideanLoss", {"half the mean squared distance of two blobs", ""});

}  // namespace
}  // namespace banyan
