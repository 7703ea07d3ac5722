// MaskResize (MNC): bilinear resizing to output_height x output_width. Output i along an axis of n pixels
// that becomes m long shows the point i n / m; beyond the last pixel's centre the last pixel, and 0 more than
// half a pixel beyond it.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/masks.hpp"

namespace banyan {
namespace {

class MaskResizeLayer : public Layer {
 public:
  MaskResizeLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows,
               .by_sample = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.output_height() < 1 || s.output_width() < 1 || s.output_height() > kMost ||
        s.output_width() > kMost)
      refuse("output_height and output_width must be from 1 to ", kMost, "; found ", s.output_height(),
             " and ", s.output_width());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    if (input[2] < 1 || input[3] < 1) refuse("input ", quoted(inputs[0]->name), " has no pixels");
    set_output(*outputs[0], Shape{input[0], input[1], settings().output_height(), settings().output_width()},
               inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::mask_resize_forward(*pass.context, inputs[0]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::mask_resize_backward(*pass.context, outputs[0]->grad, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return 4 * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  static constexpr std::uint32_t kMost = 10000;
  const caffe::MaskResizeParameter& settings() const { return parameter_.mask_resize_param(); }
};

const RegisterLayer<MaskResizeLayer> registered_mask_resize(
    "MaskResize", {"bilinear resizing whose first points agree (MNC)",
                   "mask_resize_param",
                   {"output_height: 3 output_width: 7", "output_height: 12 output_width: 2"}});

}  // namespace
}  // namespace banyan
