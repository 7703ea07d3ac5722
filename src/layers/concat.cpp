// Concat: joins inputs along one axis; all other axes are equal.
#include "axis_blocks.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/join.hpp"

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

  void read_settings() override {
    if (parameter_.concat_param().has_axis() && parameter_.concat_param().has_concat_dim())
      refuse("give either axis or concat_dim (old), not both");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.concat_param();
    const int axis = settings.has_concat_dim() ? static_cast<int>(settings.concat_dim()) : settings.axis();
    axis_ = inputs[0]->shape.canonical_axis(axis);
    traits_.by_sample = axis_ > 0;
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
    std::vector<const Tensor*> parts;
    for (const Blob* input : inputs) parts.push_back(&input->data);
    ops::join_blocks(*pass.context, parts, block_parts(*outputs[0], inputs, axis_), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    std::vector<Tensor*> parts;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      parts.push_back(propagate[i] ? &inputs[i]->grad : nullptr);
    ops::split_blocks(*pass.context, outputs[0]->grad, block_parts(*outputs[0], inputs, axis_), parts);
  }

 private:
  int axis_ = 1;
};

const RegisterLayer<ConcatLayer> registered_concat("Concat", {"joins blobs along an axis",
                                                              "concat_param",
                                                              {"", "axis: 0"}});

}  // namespace
}  // namespace banyan
