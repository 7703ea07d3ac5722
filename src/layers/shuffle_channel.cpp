// ShuffleChannel: channels numbered as group x (C / group) are put into the order (C / group) x group
// (ShuffleNet).
#include "grid_layer.hpp"

namespace banyan {
namespace {

class ShuffleChannelLayer : public GridLayer {
 public:
  ShuffleChannelLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {.layout = LayoutRule::follows}) {}

  void read_settings() override {
    if (group() < 1) refuse("group must be positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() < 2)
      refuse("input ", quoted(inputs[0]->name), " has ", input.axes(), " axes; expected at least 2 (N, C)");
    if (input[1] % group() != 0)
      refuse("group ", group(), " does not divide the ", input[1], " channels of ", quoted(inputs[0]->name));
    set_output(*outputs[0], input, inputs[0]->layout);
  }

 private:
  std::int64_t group() const { return parameter_.shuffle_channel_param().group(); }

  ops::Grid places(const Blob& input, const Blob&) const override {
    const std::vector<std::int64_t> strides = ops::strides_of(input.shape, input.layout);
    const std::int64_t each = input.shape[1] / group();
    ops::Grid grid;
    grid.add(input.shape[0], strides[0], strides[0]);
    grid.add(each, strides[1], group() * strides[1]);
    grid.add(group(), each * strides[1], strides[1]);
    for (std::size_t axis = 2; axis < strides.size(); ++axis)
      grid.add(input.shape.dims()[axis], strides[axis], strides[axis]);
    return grid;
  }
};

const RegisterLayer<ShuffleChannelLayer> registered_shuffle_channel(
    "ShuffleChannel", {"interleaves groups of channels", "shuffle_channel_param", {"group: 2"}});

}  // namespace
}  // namespace banyan
