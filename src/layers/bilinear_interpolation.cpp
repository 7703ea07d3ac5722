// BilinearInterpolation: bilinear resizing of images with aligned corners, to interpolation_factor times
// their size, or with a second input to that one's height and width (DeepLab's attention, branches of Caffe).
#include "aligned_resize_layer.hpp"

namespace banyan {
namespace {

class BilinearInterpolationLayer : public AlignedResizeLayer {
 public:
  BilinearInterpolationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AlignedResizeLayer(parameter, options, {1, 2, 1, 1}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs.size() == 1 && factor() < 1) refuse("interpolation_factor must be positive; found ", factor());
    if (inputs.size() == 2 && parameter_.bilinear_interpolation_param().has_interpolation_factor())
      refuse("give either interpolation_factor or a second input, whose size is taken; found both");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    part_ = {0, 0, input[2], input[3]};
    std::int64_t height = input[2] * factor(), width = input[3] * factor();
    if (inputs.size() == 2) {
      const Shape& like = image_shape(*inputs[1]);
      height = like[2];
      width = like[3];
    }
    if (input.count(2) < 1) refuse("input ", quoted(inputs[0]->name), " has no pixels");
    set_output(*outputs[0], Shape{input[0], input[1], height, width}, inputs[0]->layout);
  }

 private:
  std::int64_t factor() const { return parameter_.bilinear_interpolation_param().interpolation_factor(); }
};

const RegisterLayer<BilinearInterpolationLayer> registered_bilinear_interpolation(
    "BilinearInterpolation", {"bilinear resizing by a factor or to another blob's size",
                              "bilinear_interpolation_param",
                              {"interpolation_factor: 2", "interpolation_factor: 3"}});

}  // namespace
}  // namespace banyan
