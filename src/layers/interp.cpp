// Interp: bilinear resizing of images with aligned corners (PSPNet, DeepLab, ICNet).
//
// pad_beg and pad_end, never positive, cut rows and columns off first. What is left, of length n along an
// axis, becomes: (n - 1) / shrink_factor + 1 long with shrink_factor alone; n + (n - 1)(zoom_factor - 1) with
// zoom_factor alone; height x width where these are given; shrunk, then zoomed with both factors.
#include "aligned_resize_layer.hpp"

namespace banyan {
namespace {

class InterpLayer : public AlignedResizeLayer {
 public:
  using AlignedResizeLayer::AlignedResizeLayer;

  void read_settings() override {
    const auto& s = settings();
    if (s.pad_beg() > 0 || s.pad_end() > 0)
      refuse("pad_beg and pad_end cut off and must not be positive; found ", s.pad_beg(), " and ",
             s.pad_end());
    if (s.shrink_factor() < 1) refuse("shrink_factor must be positive; found ", s.shrink_factor());
    if (s.zoom_factor() < 1) refuse("zoom_factor must be positive; found ", s.zoom_factor());
    if (!s.has_shrink_factor() && !s.has_zoom_factor() && !(s.has_height() && s.has_width()))
      refuse("give shrink_factor, zoom_factor, or height and width");
    if (by_size() && (s.height() < 1 || s.width() < 1))
      refuse("height and width must be positive; found ", s.height(), " and ", s.width());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    const std::int64_t begin = -settings().pad_beg(), cut = begin - settings().pad_end();
    part_ = {begin, begin, input[2] - cut, input[3] - cut};
    if (part_.height < 1 || part_.width < 1)
      refuse("pad_beg and pad_end leave nothing of the ", input[2], " x ", input[3], " pixels of ",
             quoted(inputs[0]->name));
    set_output(*outputs[0],
               Shape{input[0], input[1], resized(part_.height, settings().height()),
                     resized(part_.width, settings().width())},
               inputs[0]->layout);
  }

 private:
  const caffe::InterpParameter& settings() const { return parameter_.interp_param(); }

  /// One factor goes before height and width, both after them (PSPNet).
  bool by_size() const {
    const auto& s = settings();
    return s.has_shrink_factor() == s.has_zoom_factor() && s.has_height() && s.has_width();
  }

  std::int64_t resized(std::int64_t length, std::int64_t size) const {
    if (by_size()) return size;
    const std::int64_t shrunk = (length - 1) / settings().shrink_factor() + 1;
    return shrunk + (shrunk - 1) * (settings().zoom_factor() - 1);
  }
};

const RegisterLayer<InterpLayer> registered_interp("Interp", {"bilinear resizing with aligned corners",
                                                              "interp_param",
                                                              {"height: 7 width: 3", "zoom_factor: 2",
                                                               "shrink_factor: 2 pad_beg: -1"}});

}  // namespace
}  // namespace banyan
