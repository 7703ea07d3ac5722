// What Upsample and Unpooling have in common: pixels put where a mask says that maximum pooling took them
// from, all others 0.
#pragma once

#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/ops/unfold.hpp"

namespace banyan {

class UnpoolLayer : public Layer {
 public:
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    if (inputs.size() > 1 && !(inputs[1]->shape == input))
      refuse("the mask ", quoted(inputs[1]->name), " of shape ", inputs[1]->shape.to_string(),
             " must have the shape of ", quoted(inputs[0]->name), ", ", input.to_string());
    const std::int64_t h = output_length(0, input[2]), w = output_length(1, input[3]);
    if (h < 1 || w < 1) refuse("the output would have ", h, " x ", w, " pixels");
    shape_ = Shape{input[0], input[1], h, w};
    set_output(*outputs[0], shape_, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ops::note_outside(context, inputs[1]->data, 1, shape_.count(2), note_.on(context));
    ops::unpool_forward(context, inputs[0]->data, inputs[1]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::unpool_backward(*pass.context, outputs[0]->grad, inputs[1]->data, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    note_.check(context, [&](const IndexNote::Found& found) {
      refuse("the mask holds ", found.value, ", which is no pixel of the ", shape_[2], " x ", shape_[3],
             " of the output; it must be the second output of the Pooling layer that made the input smaller");
    });
  }

 protected:
  UnpoolLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int least_inputs)
      : Layer(parameter, options,
              {.arity = {least_inputs, 2, 1, 1},
               .layout = LayoutRule::follows,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  /// Of rows (axis 0) or columns (1) made of `length`.
  virtual std::int64_t output_length(int axis, std::int64_t length) const = 0;

 private:
  Shape shape_;
  IndexNote note_;
};

}  // namespace banyan
