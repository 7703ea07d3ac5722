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
      : Layer(parameter, options,
              {.arity = {3, 3, 1, 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .backward_reads_outputs = false}) {}

  void read_settings() override { traits_.passes_gradient = {false, false, true}; }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &x = inputs[1]->shape, &b = inputs[2]->shape;
    if (x.axes() < 2 || a.axes() < 2 || a[0] != x[0] || a[1] != x[1] || a.count(2) != 1 || !(x == b))
      refuse("expected one factor for each channel of each sample, and two blobs of one shape; found ",
             a.to_string(), ", ", x.to_string(), " and ", b.to_string());
    set_output(*outputs[0], x, inputs[1]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::scale_planes(*pass.context, inputs[1]->data, inputs[0]->data, inputs[2]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    Tensor none;
    if (propagate[0] || propagate[1])
      ops::scale_planes_backward(context, inputs[1]->data, dy, inputs[0]->data,
                                 propagate[1] ? inputs[1]->grad : none,
                                 propagate[0] ? inputs[0]->grad : none);
    if (propagate[2]) ops::copy(context, dy, inputs[2]->grad);
  }
};

const RegisterLayer<AxpyLayer> registered_axpy("Axpy",
                                               {.about = "a * x + b with a factor per channel and sample",
                                                .message = "",
                                                .inputs = {{4}, {4, 5, 5}, {4, 5, 5}}});

}  // namespace
}  // namespace banyan
