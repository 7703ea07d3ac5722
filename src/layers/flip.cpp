// Flip (caffe-windows): images (N, C, H, W) with the order of columns (flip_width, true unless written), of
// rows (flip_height), or both reversed.
#include "grid_layer.hpp"

namespace banyan {
namespace {

class FlipLayer : public GridLayer {
 public:
  FlipLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {.layout = LayoutRule::follows}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() != 4)
      refuse("input ", quoted(inputs[0]->name), " has ", input.axes(), " axes; expected 4 (N, C, H, W)");
    set_output(*outputs[0], input, inputs[0]->layout);
  }

 private:
  ops::Grid places(const Blob& input, const Blob&) const override {
    const auto& settings = parameter_.flip_param();
    const bool reversed[4] = {false, false, settings.flip_height(), settings.flip_width()};
    const std::vector<std::int64_t> strides = ops::strides_of(input.shape, input.layout);
    ops::Grid grid;
    for (int axis = 0; axis < 4; ++axis) {
      const std::int64_t length = input.shape[axis], stride = strides[static_cast<std::size_t>(axis)];
      if (reversed[axis]) grid.from_offset += (length - 1) * stride;
      grid.add(length, reversed[axis] ? -stride : stride, stride);
    }
    return grid;
  }
};

const RegisterLayer<FlipLayer> registered_flip("Flip",
                                               {"reverses the columns or rows of images (caffe-windows)",
                                                "flip_param",
                                                {"", "flip_width: false flip_height: true",
                                                 "flip_height: true"}});

}  // namespace
}  // namespace banyan
