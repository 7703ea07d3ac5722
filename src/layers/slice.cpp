// Slice: cuts the input along one axis, at `slice_point`s or into equal parts.
#include "axis_blocks.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/join.hpp"

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

  void read_settings() override {
    const auto& settings = parameter_.slice_param();
    if (settings.has_axis() && settings.has_slice_dim())
      refuse("give either axis or slice_dim (old), not both");
    const int points = settings.slice_point_size(), tops = parameter_.top_size();
    if (points > 0 && points + 1 != tops)
      refuse("expected ", tops - 1, " slice_points for ", tops, " outputs; found ", points);
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.slice_param();
    const int axis = settings.has_slice_dim() ? static_cast<int>(settings.slice_dim()) : settings.axis();
    axis_ = inputs[0]->shape.canonical_axis(axis);
    if (axis_ > 1) traits_.layout = LayoutRule::contiguous;
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
    std::vector<Tensor*> parts;
    for (Blob* output : outputs) parts.push_back(&output->data);
    ops::split_blocks(*pass.context, inputs[0]->data, block_parts(*inputs[0], outputs, axis_), parts);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Tensor& dx = inputs[0]->grad;
    std::vector<const Tensor*> parts;
    bool all = true;
    for (const Blob* output : outputs) {  // no loss may depend on a part
      parts.push_back(output->grad.defined() ? &output->grad : nullptr);
      all = all && output->grad.defined();
    }
    if (!all) ops::fill(*pass.context, dx, 0);
    ops::join_blocks(*pass.context, parts, block_parts(*inputs[0], outputs, axis_), dx);
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

const RegisterLayer<SliceLayer> registered_slice("Slice", {"cuts a blob along an axis", "slice_param"});

}  // namespace
}  // namespace banyan
