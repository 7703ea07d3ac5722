// Concat: joins inputs along one axis; all other axes are equal.
#include "axis_blocks.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class ConcatLayer : public Layer {
 public:
  ConcatLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 1, 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.concat_param();
    if (settings.has_axis() && settings.has_concat_dim())
      refuse("give either axis or concat_dim (old), not both");
    const int axis = settings.has_concat_dim() ? static_cast<int>(settings.concat_dim()) : settings.axis();
    axis_ = inputs[0]->shape.canonical_axis(axis);
    if (axis_ > 1) traits_.layout = LayoutRule::contiguous;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    Shape shape = inputs[0]->shape;
    std::int64_t length = 0;
    for (const Blob* input : inputs) {
      Shape others = input->shape;
      const bool same_axes = others.axes() == shape.axes();
      if (same_axes) others.set_dim(axis_, shape[axis_]);
      if (!same_axes || !(others == shape))
        refuse("inputs may differ in axis ", axis_, " only; ", quoted(inputs[0]->name), " is ",
               shape.to_string(), ", ", quoted(input->name), " is ", input->shape.to_string());
      length += input->shape[axis_];
    }
    shape.set_dim(axis_, length);
    set_output(*outputs[0], shape, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    std::int64_t offset = 0;
    for (const Blob* input : inputs) {
      const ops::BlockCopy part = part_of(*outputs[0], *input, offset);
      if (input->shape.count() > 0)
        ops::copy_blocks(*pass.context, input->data, outputs[0]->data,
                         {part.blocks, part.length, 0, part.length, part.to_offset, part.to_stride});
      offset += part.length;
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ops::BlockCopy part = part_of(*outputs[0], *inputs[i], offset);
      if (propagate[i] && inputs[i]->shape.count() > 0)
        ops::copy_blocks(*pass.context, outputs[0]->grad, inputs[i]->grad,
                         {part.blocks, part.length, part.to_offset, part.to_stride, 0, part.length});
      offset += part.length;
    }
  }

 private:
  /// Where `input` goes: `offset` elements into each block of the output.
  ops::BlockCopy part_of(const Blob& output, const Blob& input, std::int64_t offset) const {
    const AxisBlocks blocks = axis_blocks(output.shape, output.layout, axis_);
    const std::int64_t length = input.shape[axis_] * blocks.inner;
    return {blocks.outer, length, 0, length, offset, output.shape[axis_] * blocks.inner};
  }

  int axis_ = 1;
};

const RegisterLayer<ConcatLayer> registered("Concat",
                                            {"joins blobs along an axis", "concat_param", {"", "axis: 0"}});

}  // namespace
}  // namespace banyan
