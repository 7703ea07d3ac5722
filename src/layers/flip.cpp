// Flip (caffe-windows): images (N, C, H, W) with the order of columns (flip_width, true unless written), of
// rows (flip_height), or both reversed.
#include "reversing_layer.hpp"

namespace banyan {
namespace {

class FlipLayer : public ReversingLayer {
 public:
  using ReversingLayer::ReversingLayer;

 private:
  std::vector<bool> reversed_axes(const Blob& input) const override {
    image_shape(input);
    const auto& settings = parameter_.flip_param();
    return {false, false, settings.flip_height(), settings.flip_width()};
  }
};

const RegisterLayer<FlipLayer> registered_flip("Flip",
                                               {"reverses the columns or rows of images (caffe-windows)",
                                                "flip_param",
                                                {"", "flip_width: false flip_height: true",
                                                 "flip_height: true"}});

}  // namespace
}  // namespace banyan
