// ArgMax: the places of the top_k largest values, the largest first; of equal values the later one first (as
// in Caffe). Along `axis` if it is given, which then has length top_k: places, or with out_max_val the
// values. Without it, over all values of a sample: N x 1 x top_k places, or with out_max_val N x 2 x top_k
// places and values. No gradient.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/selection.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class ArgMaxLayer : public Layer {
 public:
  ArgMaxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.backward_reads_inputs = false, .backward_reads_outputs = false, .differentiable_inputs = 0}) {
  }

  void read_settings() override {
    if (settings().top_k() < 1) refuse("top_k must be positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const std::int64_t k = settings().top_k();
    if (input.axes() < 1) refuse("the input needs an axis");
    over_ = settings().has_axis() ? channels_along(input, settings().axis())
                                  : ops::Channels{input[0], input.count(1), 1};
    if (k > over_.channels) refuse("top_k ", k, " exceeds the ", over_.channels, " values");
    if (settings().has_axis()) {
      Shape shape = input;
      shape.set_dim(settings().axis(), k);
      set_output(*outputs[0], shape);
      return;
    }
    std::vector<std::int64_t> dims(static_cast<std::size_t>(std::max(3, input.axes())), 1);
    dims[0] = input[0];
    dims[1] = settings().out_max_val() ? 2 : 1;
    dims[2] = k;
    set_output(*outputs[0], Shape(dims));
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Tensor none, &y = outputs[0]->data;
    const int k = static_cast<int>(settings().top_k());
    const bool both = !settings().has_axis() && settings().out_max_val();
    const std::int64_t stride = (both ? 2 : 1) * k * over_.inner;
    Tensor values = both ? (y.count() > 0 ? y.slice(k, Shape{y.count() - k}) : none) : y;
    ops::largest(*pass.context, inputs[0]->data, over_, k, stride,
                 both || !settings().out_max_val() ? y : none, settings().out_max_val() ? values : none);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  const caffe::ArgMaxParameter& settings() const { return parameter_.argmax_param(); }

  ops::Channels over_{};
};

const RegisterLayer<ArgMaxLayer> registered_argmax("ArgMax", {"places of the largest values",
                                                              "argmax_param",
                                                              {"", "out_max_val: true top_k: 3", "axis: 1",
                                                               "axis: 1 out_max_val: true top_k: 2"}});

}  // namespace
}  // namespace banyan
