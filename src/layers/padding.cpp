// Padding (DeepLab): pad_beg rows before and pad_end rows after those of N x C x H x W, and as many columns,
// all of them 0; negative numbers cut off as many instead.
#include <algorithm>

#include "grid_layer.hpp"

namespace banyan {
namespace {

class PaddingLayer : public GridLayer {
 public:
  PaddingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {.layout = LayoutRule::follows, .by_sample = true}),
        begin_(parameter.padding_param().pad_beg()),
        end_(parameter.padding_param().pad_end()) {}

  void read_settings() override {
    constexpr std::int64_t kMost = 1 << 20;
    if (std::max(begin_, end_) > kMost)
      refuse("pad_beg and pad_end must be at most ", kMost, "; found ", begin_, " and ", end_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    Shape shape = image_shape(*inputs[0]);
    for (int axis = 2; axis < 4; ++axis) {
      // What is cut off must be there, also where as much is added on the other side.
      if (shape[axis] + std::min<std::int64_t>(begin_, 0) + std::min<std::int64_t>(end_, 0) < 1)
        refuse("pad_beg ", begin_, " and pad_end ", end_, " leave nothing of ", quoted(inputs[0]->name),
               ", which is ", shape.to_string());
      shape.set_dim(axis, shape[axis] + begin_ + end_);
    }
    set_output(*outputs[0], shape, inputs[0]->layout);
  }

 private:
  ops::Grid places(const Blob& input, const Blob& output) const override {
    const std::vector<std::int64_t> from = ops::strides_of(input.shape, input.layout),
                                    to = ops::strides_of(output.shape, output.layout);
    const std::int64_t cut = std::max<std::int64_t>(-begin_, 0), added = std::max<std::int64_t>(begin_, 0);
    ops::Grid grid;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      std::int64_t length = input.shape.dims()[axis];
      if (axis >= 2) {
        length += std::min<std::int64_t>(begin_, 0) + std::min<std::int64_t>(end_, 0);
        grid.from_offset += cut * from[axis];
        grid.to_offset += added * to[axis];
      }
      grid.add(length, from[axis], to[axis]);
    }
    return grid;
  }

  std::int64_t begin_, end_;
};

const RegisterLayer<PaddingLayer> registered_padding("Padding",
                                                     {"rows and columns of 0 around images, or fewer of them",
                                                      "padding_param",
                                                      {"pad_beg: 1 pad_end: 2", "pad_beg: -1 pad_end: 1",
                                                       "pad_beg: 2 pad_end: -1"}});

}  // namespace
}  // namespace banyan
