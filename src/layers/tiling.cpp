// Tiling (VPGNet): (N, C, H, W) becomes (N, C / (t t), H t, W t), t being tile_dim: channel (c t + i) t + j
// is pixel (i, j) of the squares of t x t pixels of channel c.
#include "grid_layer.hpp"

namespace banyan {
namespace {

class TilingLayer : public GridLayer {
 public:
  TilingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {.by_sample = true}) {}

  void read_settings() override {
    if (side() < 1 || side() > kMost)
      refuse("tile_dim must be given, and from 1 to ", kMost, "; found ", side());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    const std::int64_t t = side();
    if (input[1] % (t * t) != 0)
      refuse("tile_dim ", t, " needs a multiple of ", t * t, " channels; ", quoted(inputs[0]->name), " has ",
             input[1]);
    set_output(*outputs[0], Shape{input[0], input[1] / (t * t), input[2] * t, input[3] * t});
  }

 private:
  static constexpr std::int64_t kMost = 1000;
  std::int64_t side() const { return parameter_.tiling_param().tile_dim(); }

  ops::Grid places(const Blob& input, const Blob&) const override {
    const Shape& shape = input.shape;
    const std::int64_t t = side(), h = shape[2], w = shape[3], each = shape[1] / (t * t);
    ops::Grid grid;
    grid.add(shape[0], shape.count(1), shape.count(1));
    grid.add(each, t * t * h * w, h * t * w * t);
    grid.add(t, t * h * w, w * t);
    grid.add(t, h * w, 1);
    grid.add(h, w, t * w * t);
    grid.add(w, 1, t);
    return grid;
  }
};

const RegisterLayer<TilingLayer> registered_tiling("Tiling",
                                                   {"turns channels into squares of pixels (VPGNet)",
                                                    "tiling_param",
                                                    {"tile_dim: 2", "tile_dim: 1"}});

}  // namespace
}  // namespace banyan
