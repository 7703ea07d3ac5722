// A layer that resizes its first input: to a size in its settings, or to that of its second input, whose
// values do not count. No gradient goes through it.
#pragma once

#include "banyan/layers/layer.hpp"

namespace banyan {

class SizedLayer : public Layer {
 public:
  SizedLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 2, 1, 1},
               .layout = LayoutRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0}) {}

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 protected:
  static constexpr std::uint32_t kMost = 10000;

  /// That of the output; `height` and `width` as in the settings, whose names are for messages.
  void set_size(const Blobs& inputs, const Blobs& outputs, std::uint32_t height, std::uint32_t width,
                const char* height_name, const char* width_name) const {
    const Shape& input = image_shape(*inputs[0]);
    Shape output{input[0], input[1], height, width};
    if (inputs.size() > 1) {
      const Shape& like = image_shape(*inputs[1]);
      output = Shape{input[0], input[1], like[2], like[3]};
    } else if (height < 1 || width < 1 || height > kMost || width > kMost) {
      refuse("without a second input, ", height_name, " and ", width_name, " must be from 1 to ", kMost,
             "; found ", height, " and ", width);
    }
    set_output(*outputs[0], output, inputs[0]->layout);
  }
};

}  // namespace banyan
