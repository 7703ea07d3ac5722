// Slice: cuts the input along one axis, at `slice_point`s or into equal parts.
#include "axis_blocks.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class SliceLayer : public Layer {
 public:
  SliceLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 1, -1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    const auto& settings = parameter_.slice_param();
    if (settings.has_axis() && settings.has_slice_dim())
      refuse("give either axis or slice_dim (old), not both");
    const int axis = settings.has_slice_dim() ? static_cast<int>(settings.slice_dim()) : settings.axis();
    axis_ = inputs[0]->shape.canonical_axis(axis);
    if (axis_ > 1) traits_.layout = LayoutRule::contiguous;
    if (settings.slice_point_size() > 0 &&
        static_cast<std::size_t>(settings.slice_point_size()) + 1 != outputs.size())
      refuse("expected ", outputs.size() - 1, " slice_points for ", outputs.size(), " outputs; found ",
             settings.slice_point_size());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const std::vector<std::int64_t> lengths = part_lengths(inputs[0]->shape[axis_], outputs.size());
    Shape shape = inputs[0]->shape;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      shape.set_dim(axis_, lengths[i]);
      set_output(*outputs[i], shape, inputs[0]->layout);
    }
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Blob& input = *inputs[0];
    const AxisBlocks blocks = axis_blocks(input.shape, input.layout, axis_);
    const std::int64_t stride = input.shape[axis_] * blocks.inner;
    std::int64_t offset = 0;
    for (Blob* output : outputs) {
      const std::int64_t length = output->shape[axis_] * blocks.inner;
      if (output->shape.count() > 0)
        ops::copy_blocks(*pass.context, input.data, output->data,
                         {blocks.outer, length, offset, stride, 0, length});
      offset += length;
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Blob& input = *inputs[0];
    const AxisBlocks blocks = axis_blocks(input.shape, input.layout, axis_);
    const std::int64_t stride = input.shape[axis_] * blocks.inner;
    for (const Blob* output : outputs) {
      if (output->grad.defined()) continue;  // no loss depends on this part
      ops::fill(*pass.context, input.grad, 0);
      break;
    }
    std::int64_t offset = 0;
    for (const Blob* output : outputs) {
      const std::int64_t length = output->shape[axis_] * blocks.inner;
      if (output->grad.defined() && output->shape.count() > 0)
        ops::copy_blocks(*pass.context, output->grad, input.grad,
                         {blocks.outer, length, 0, length, offset, stride});
      offset += length;
    }
  }

 private:
  std::vector<std::int64_t> part_lengths(std::int64_t whole, std::size_t parts) const {
    const auto& settings = parameter_.slice_param();
    std::vector<std::int64_t> lengths;
    if (settings.slice_point_size() == 0) {
      const std::int64_t count = static_cast<std::int64_t>(parts);
      if (whole % count != 0)
        refuse("axis ", axis_, " has length ", whole, ", which ", parts,
               " outputs do not divide; give slice_points");
      lengths.assign(parts, whole / count);
      return lengths;
    }
    std::int64_t from = 0;
    for (const std::int64_t point : settings.slice_point()) {
      if (point <= from || point >= whole)
        refuse("slice_points must rise strictly between 0 and the length ", whole, " of axis ", axis_,
               "; found ", point, " after ", from);
      lengths.push_back(point - from);
      from = point;
    }
    lengths.push_back(whole - from);
    return lengths;
  }

  int axis_ = 1;
};

const RegisterLayer<SliceLayer> registered("Slice", {"cuts a blob along an axis", "slice_param"});

}  // namespace
}  // namespace banyan
