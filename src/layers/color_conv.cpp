// ColorConv (yjxiong's Caffe, Larsson et al. 2016): images (N x C x H x W) in another colour space. BGR, RGB
// and Gray (one channel) hold 0 to 255; XYZ and Lab are those of CIE for sRGB and white D65, L up to 100. No
// gradient.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/colors.hpp"

namespace banyan {
namespace {

ops::Colors colors_of(caffe::ColorConvParameter::ColorSpace space) {
  switch (space) {
    case caffe::ColorConvParameter::RGB:
      return ops::Colors::rgb;
    case caffe::ColorConvParameter::XYZ:
      return ops::Colors::xyz;
    case caffe::ColorConvParameter::Lab:
      return ops::Colors::lab;
    case caffe::ColorConvParameter::Gray:
      return ops::Colors::gray;
    default:
      return ops::Colors::bgr;
  }
}

class ColorConvLayer : public Layer {
 public:
  ColorConvLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.by_sample = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0}) {
    what_.from = colors_of(parameter_.color_conv_param().input());
    what_.to = colors_of(parameter_.color_conv_param().output());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& images = image_shape(*inputs[0]);
    const std::int64_t channels = ops::channels_of(what_.from);
    if (images[1] != channels)
      refuse("input ", quoted(inputs[0]->name), " is ", images.to_string(), "; colours of the kind ",
             caffe::ColorConvParameter::ColorSpace_Name(parameter_.color_conv_param().input()), " have ",
             channels, channels == 1 ? " channel" : " channels");
    what_.pixels = images[2] * images[3];
    set_output(*outputs[0], Shape{images[0], ops::channels_of(what_.to), images[2], images[3]});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::convert_colors(*pass.context, inputs[0]->data, what_, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  ops::ColorConversion what_;
};

const RegisterLayer<ColorConvLayer> registered_color_conv(
    "ColorConv", {.about = "images in another colour space; no gradient",
                  .message = "color_conv_param",
                  .examples = {"", "output: Lab", "output: Gray"},
                  .inputs = {{3, 5, 4}}});

}  // namespace
}  // namespace banyan
