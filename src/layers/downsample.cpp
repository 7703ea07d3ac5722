// Downsample (FlowNet): smaller maps from weighted means, leaving out what is no number (ops/resample.hpp).
#include "banyan/ops/resample.hpp"
#include "sized_layer.hpp"

namespace banyan {
namespace {

class DownsampleLayer : public SizedLayer {
 public:
  using SizedLayer::SizedLayer;

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const auto& s = parameter_.downsample_param();
    set_size(inputs, outputs, s.top_height(), s.top_width(), "top_height", "top_width");
    const Shape &from = inputs[0]->shape, &to = outputs[0]->shape;
    for (const std::size_t axis : {2, 3})
      if (to[axis] < 2 || to[axis] > from[axis])
        refuse("the result must be at least 2 x 2 and no larger than the input; it would be ", to[2], " x ",
               to[3], ", ", quoted(inputs[0]->name), " is ", from[2], " x ", from[3]);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::downsample(*pass.context, inputs[0]->data, outputs[0]->data);
  }
};

const RegisterLayer<DownsampleLayer> registered_downsample(
    "Downsample", {.about = "smaller maps, without what is no number (FlowNet)",
                   .message = "downsample_param",
                   .examples = {"top_height: 3 top_width: 2"},
                   .inputs = {{4, 5, 6}, {1, 3, 4}}});

}  // namespace
}  // namespace banyan
