// Axpy (SENet): y = a * x + b, with one factor a for each channel of each sample. Inputs: a (N x C, or N x C
// x 1 x 1), x, b; x and b are of one shape.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

class AxpyLayer : public Layer {
 public:
  AxpyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(
            parameter, options,
            {.arity = {3, 3, 1, 1}, .storage = StorageRule::sixteen_bits, .backward_reads_outputs = false}) {}

  void setup(const Blobs&, const Blobs&) override { traits_.passes_gradient = {false, false, true}; }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &x = inputs[1]->shape, &b = inputs[2]->shape;
    if (x.axes() < 2 || a.axes() < 2 || a[0] != x[0] || a[1] != x[1] || a.count(2) != 1 || !(x == b))
      refuse("expected one factor for each channel of each sample, and two blobs of one shape; found ",
             a.to_string(), ", ", x.to_string(), " and ", b.to_string());
    over_ = {1, x.count(0, 2), x.count(2)};
    set_output(*outputs[0], x);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Tensor& y = outputs[0]->data;
    ops::scale_bias(*pass.context, inputs[1]->data, inputs[0]->data, none_, over_, {}, y);
    ops::axpby(*pass.context, 1, inputs[2]->data, 1, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    if (propagate[0]) {
      ops::fill(context, inputs[0]->grad, 0);
      ops::scale_backward(context, inputs[1]->data, dy, over_, inputs[0]->grad);
    }
    if (propagate[1]) ops::scale_bias(context, dy, inputs[0]->data, none_, over_, {}, inputs[1]->grad);
    if (propagate[2] && !inputs[2]->grad.same_memory(dy)) ops::copy(context, dy, inputs[2]->grad);
  }

 private:
  ops::Broadcast over_{};
  Tensor none_;
};

const RegisterLayer<AxpyLayer> registered("Axpy", {.about = "a * x + b with a factor per channel and sample",
                                                   .message = "",
                                                   .inputs = {{4}, {4, 5, 5}, {4, 5, 5}}});

}  // namespace
}  // namespace banyan
