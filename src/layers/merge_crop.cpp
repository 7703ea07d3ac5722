// MergeCrop (BVLC's opencl branch): the first input, and of the second the middle, as long as the first one
// on the axes after the channels (from (b - a) / 2 on): their channels one after the other, or their sum.
// Without settings the second input has no gradient.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/grid.hpp"

namespace banyan {
namespace {

class MergeCropLayer : public Layer {
 public:
  MergeCropLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {
    if (!adds()) traits_.storage = StorageRule::follows;
    const bool first = is_on(settings().backward(), 0, true), second = is_on(settings().backward(), 1, false);
    if (!second) traits_.differentiable_inputs = first ? 1 : 0;
    if (!first) traits_.constant_input = 0;
  }

  void read_settings() override {
    if (settings().forward_size() > 2 || settings().backward_size() > 2)
      refuse("forward and backward are given at most twice, once for each input");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &b = inputs[1]->shape;
    bool fits = a.axes() >= 2 && a.axes() == b.axes() && a[0] == b[0] && (!adds() || a[1] == b[1]);
    for (int axis = 2; fits && axis < a.axes(); ++axis) fits = a[axis] <= b[axis];
    if (!fits)
      refuse("the second input must have the first one's batch", adds() ? " and channels" : "",
             ", and be as large on all axes after the channels, or larger; ", quoted(inputs[0]->name), " is ",
             a.to_string(), ", ", quoted(inputs[1]->name), " is ", b.to_string());
    Shape shape = a;
    if (!adds()) shape.set_dim(1, a[1] + b[1]);
    set_output(*outputs[0], shape, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    Tensor& y = outputs[0]->data;
    const bool first = is_on(settings().forward(), 0, true), second = is_on(settings().forward(), 1, true);
    if (!(first && second)) ops::fill(context, y, 0);
    if (second) ops::copy_grid(context, inputs[1]->data, y, places(inputs, *outputs[0], 1));
    if (!first) return;
    if (adds() && second)
      ops::axpby(context, 1, inputs[0]->data, 1, y);
    else
      ops::copy_grid(context, inputs[0]->data, y, places(inputs, *outputs[0], 0));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    for (std::size_t i = 0; i < 2; ++i) {
      if (!propagate[i]) continue;
      const ops::Grid grid = places(inputs, *outputs[0], i);
      if (grid.count() != inputs[i]->grad.count()) ops::fill(context, inputs[i]->grad, 0);
      ops::copy_grid(context, outputs[0]->grad, inputs[i]->grad, grid.reversed());
    }
  }

 private:
  const caffe::MergeCropParameter& settings() const { return parameter_.mergecrop_param(); }
  bool adds() const { return settings().operation() == caffe::MergeCropParameter::ADD; }
  static bool is_on(const google::protobuf::RepeatedField<bool>& given, int input, bool otherwise) {
    return input < given.size() ? given[input] : otherwise;
  }

  /// Of the elements that are in both, in an input and in the output.
  ops::Grid places(const Blobs& inputs, const Blob& output, std::size_t which) const {
    const Blob& input = *inputs[which];
    const std::vector<std::int64_t> from = ops::strides_of(input.shape, input.layout),
                                    to = ops::strides_of(output.shape, output.layout);
    ops::Grid grid;
    if (which == 1 && !adds()) grid.to_offset = inputs[0]->shape[1] * to[1];
    for (int axis = 0; axis < output.shape.axes(); ++axis) {
      const std::int64_t all = input.shape[axis], length = axis < 2 ? all : output.shape[axis];
      const auto at = static_cast<std::size_t>(axis);
      grid.from_offset += (all - length) / 2 * from[at];
      grid.add(length, from[at], to[at]);
    }
    return grid;
  }
};

const RegisterLayer<MergeCropLayer> registered_merge_crop(
    "MergeCrop",
    {.about = "a blob and the middle of a larger one (BVLC's opencl branch)",
     .message = "mergecrop_param",
     .examples = {"", "backward: [true, true]", "operation: ADD backward: [true, true]", "backward: false"},
     .inputs = {{4, 3, 4}, {4, 5, 5}}});

}  // namespace
}  // namespace banyan
