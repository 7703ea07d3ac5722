// EuclideanLoss: sum (a - b)^2 / (2 N), N being the length of axis 0 over all devices. Both inputs get
// gradients.
//
// EuclideanLossHeatmap (caffe-heatmap): sum (a - b)^2 / 2 over all devices: this is the loss whose gradient
// for a the branch computes; it shows the mean of the squares. loss_param's normalization can divide the sum.
// The third input is what the branch shows the maps on, and has no effect.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class EuclideanLossLayer : public LossLayer {
 public:
  EuclideanLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : EuclideanLossLayer(parameter, options, 2) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    check_shapes(*inputs[0], *inputs[1]);
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& a = inputs[0]->data;
    ensure(context, difference_, a.shape(), dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::euclidean_forward(context, a, inputs[1]->data.reshaped(a.shape()), difference_, partial_);
    find_divisor(pass, normalization_, a.count(), inputs[0]->shape[0]);
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

 protected:
  EuclideanLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int most_inputs)
      : LossLayer(parameter, options,
                  {.arity = {2, most_inputs, 1, 1},
                   .backward_reads_inputs = false,
                   .backward_reads_outputs = false,
                   .meets = Meets::forward}) {}

  virtual void check_shapes(const Blob& a, const Blob& b) const {
    if (a.shape.axes() < 1 || b.shape.axes() < 1 || a.shape[0] != b.shape[0] ||
        a.shape.count(1) != b.shape.count(1))
      refuse("the inputs must have the same batch and the same count per sample; ", quoted(a.name), " is ",
             a.shape.to_string(), ", ", quoted(b.name), " is ", b.shape.to_string());
  }

  Normalization normalization_ = Normalization::batch_size;

 private:
  Tensor difference_;
};

class EuclideanLossHeatmapLayer : public EuclideanLossLayer {
 public:
  EuclideanLossHeatmapLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : EuclideanLossLayer(parameter, options, 3) {
    normalization_ = read_normalization(Normalization::none);
    if (normalization_ == Normalization::valid) normalization_ = Normalization::full;  // all values are
    traits_.meets = meets_for(normalization_);
    traits_.differentiable_inputs = 2;
  }

 private:
  void check_shapes(const Blob& a, const Blob& b) const override {
    if (a.shape.axes() < 1 || a.shape != b.shape)
      refuse("the first two inputs must have one shape; ", quoted(a.name), " is ", a.shape.to_string(), ", ",
             quoted(b.name), " is ", b.shape.to_string());
  }
};

const RegisterLayer<EuclideanLossLayer> registered_euclidean_loss(
    "EuclideanLoss", {"half the mean squared distance of two blobs", ""});
const RegisterLayer<EuclideanLossHeatmapLayer> registered_euclidean_loss_heatmap(
    "EuclideanLossHeatmap", {.about = "half the squared distance of maps of joints (caffe-heatmap)",
                             .message = "",
                             .inputs = {{4, 3}, {4, 3}, {3, 5, 5}}});

}  // namespace
}  // namespace banyan
