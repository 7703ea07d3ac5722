// Reorg: (N, C, H, W) becomes (N, C s s, H / s, W / s), s being the stride; with `reverse` (N, C / (s s), H
// s, W s) (YOLOv2).
//
// As in Darknet and its ports to Caffe, the elements do not go where the shapes suggest. Let a sample of the
// input be numbered as C channels (t, u, c), t and u below s and c below C / (s s), of H x W pixels (i, j).
// The output's element with this number is the input's with the number of channel c, pixel (i s + t, j s + u)
// in C / (s s) channels of H s x W s pixels; with `reverse` the other way round. So s s must divide C.
#include "grid_layer.hpp"

namespace banyan {
namespace {

class ReorgLayer : public GridLayer {
 public:
  ReorgLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {}) {}

  void read_settings() override {
    if (stride() < 1) refuse("stride must be positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    const std::int64_t s = stride();
    if (input[1] % (s * s) != 0)
      refuse("stride ", s, " needs a multiple of ", s * s, " channels; ", quoted(inputs[0]->name), " has ",
             input[1]);
    if (!reverse() && (input[2] % s != 0 || input[3] % s != 0))
      refuse("stride ", s, " does not divide the ", input[2], " x ", input[3], " pixels of ",
             quoted(inputs[0]->name));
    set_output(*outputs[0], reverse() ? Shape{input[0], input[1] / (s * s), input[2] * s, input[3] * s}
                                      : Shape{input[0], input[1] * s * s, input[2] / s, input[3] / s});
  }

 private:
  std::int64_t stride() const { return parameter_.reorg_param().stride(); }
  bool reverse() const { return parameter_.reorg_param().reverse(); }

  ops::Grid places(const Blob& input, const Blob&) const override {
    const Shape& shape = input.shape;
    const std::int64_t s = stride(), h = shape[2], w = shape[3], each = shape[1] / (s * s);
    ops::Grid grid;  // from wide pixels to many channels
    grid.add(shape[0], shape.count(1), shape.count(1));
    grid.add(s, w * s, s * each * h * w);
    grid.add(s, 1, each * h * w);
    grid.add(each, h * s * w * s, h * w);
    grid.add(h, s * w * s, w);
    grid.add(w, s, 1);
    return reverse() ? grid.reversed() : grid;
  }
};

const RegisterLayer<ReorgLayer> registered_reorg("Reorg", {"turns pixels into channels and back (YOLOv2)",
                                                           "reorg_param",
                                                           {"stride: 2 reverse: true", "stride: 1"}});

}  // namespace
}  // namespace banyan
