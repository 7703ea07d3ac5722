// OuterProduct (Xlearn): of each sample's vectors, N x A and N x B (further axes count as one): N x 1 x A x
// B.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/products.hpp"

namespace banyan {
namespace {

class OuterProductLayer : public Layer {
 public:
  OuterProductLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1}, .by_sample = true, .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    if (a.axes() < 1 || b.axes() < 1 || a[0] != b[0])
      refuse("the inputs must have the same batch; ", quoted(inputs[0]->name), " is ", a.to_string(), ", ",
             quoted(inputs[1]->name), " is ", b.to_string());
    set_output(*outputs[0], Shape{a[0], 1, a.count(1), b.count(1)});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::outer_product(*pass.context, inputs[0]->data, inputs[1]->data, shape_of(inputs), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        ops::outer_product_backward(*pass.context, outputs[0]->grad, inputs[1 - i]->data, shape_of(inputs),
                                    i == 1, inputs[i]->grad);
  }

 private:
  static ops::OuterShape shape_of(const Blobs& inputs) {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    return {a[0], a.count(1), b.count(1)};
  }
};

const RegisterLayer<OuterProductLayer> registered_outer_product(
    "OuterProduct",
    {.about = "products of all elements of two vectors (Xlearn)", .message = "", .inputs = {{4}, {3}}});

}  // namespace
}  // namespace banyan
