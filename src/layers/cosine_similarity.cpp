// CosineSimilarity: y (N, 1) is the cosine of the angle between the vectors of each sample, 0 where one of
// them is 0. Both inputs get gradients. Other layers of this name give the mean of these or (1 + y) / 2.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/distance_loss.hpp"
#include "banyan/ops/norms.hpp"

namespace banyan {
namespace {

class CosineSimilarityLayer : public Layer {
 public:
  CosineSimilarityLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    if (a.axes() < 1 || b.axes() < 1 || a[0] != b[0] || a.count(1) != b.count(1))
      refuse("the inputs must have the same batch and the same count per sample; ", quoted(inputs[0]->name),
             " is ", a.to_string(), ", ", quoted(inputs[1]->name), " is ", b.to_string());
    over_ = {a[0], a.count(1), 1};
    set_output(*outputs[0], Shape{a[0], 1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor &a = inputs[0]->data, b = inputs[1]->data.reshaped(a.shape());
    for (Tensor* tensor : {&products_, &squares_[0], &squares_[1]})
      ensure(context, *tensor, Shape{over_.outer}, DType::f64);
    ops::dot_products(context, a, b, over_, 0, products_);
    ops::dot_products(context, a, a, over_, 0, squares_[0]);
    ops::dot_products(context, b, b, over_, 0, squares_[1]);
    ops::cosines(context, products_, squares_[0], squares_[1], outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!propagate[i]) continue;
      const Tensor& own = inputs[i]->data;
      ops::cosines_backward(*pass.context, own, inputs[1 - i]->data.reshaped(own.shape()), products_,
                            squares_[i], squares_[1 - i], outputs[0]->grad, inputs[i]->grad);
    }
  }

 private:
  ops::Channels over_{};
  Tensor products_, squares_[2];
};

const RegisterLayer<CosineSimilarityLayer> registered_cosine_similarity(
    "CosineSimilarity", {"the cosine of the angle between two vectors", ""});

}  // namespace
}  // namespace banyan
