// BoxOutput: the regions that a detector's maps propose (MS-CNN). Each input is N x (C + 4) x H x W, the maps
// of one field: scores of C classes, the first of which is the background, then the shifts of the boxes. A
// box's score is that of its best object less that of the background. See field_output_layer.hpp.
#include "field_output_layer.hpp"

namespace banyan {
namespace {

class BoxOutputLayer : public FieldOutputLayer {
 public:
  BoxOutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FieldOutputLayer(parameter, options, {1, -1, 1, 2}, Corners::points) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& s = parameter_.box_output_param();
    read(s);
    const auto count = std::ssize(inputs);
    widths_ = sizes("field_w", s.field_w(), count, "input");
    heights_ = sizes("field_h", s.field_h(), count, "input");
    strides_ = sizes("downsample_rate", s.downsample_rate(), count, "input");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const std::int64_t images = image_shape(*inputs[0])[0];
    std::int64_t each = 0;
    for (const Blob* input : inputs) {
      const Shape& map = image_shape(*input);
      if (map[0] != images || map[1] < 6)
        refuse(quoted(input->name), " is ", map.to_string(), "; expected ", images,
               " x (C + 4) x H x W, with the scores of C classes, at least 2, and four coordinates");
      each += map.count(2);
    }
    plan(images, each, outputs);
  }

 private:
  Found find(std::int64_t image, const std::vector<Values>& maps) const override {
    Found found;
    for (std::size_t m = 0; m < maps.size(); ++m) {
      const Shape& shape = maps[m].shape;
      const std::int64_t positions = shape.count(2), columns = shape[3], classes = shape[1] - 4;
      const double right = static_cast<double>(columns) * strides_[m],
                   below = static_cast<double>(shape[2]) * strides_[m];
      const double* const of_image = maps[m].values.data() + image * shape.count(1);
      for (std::int64_t position = 0; position < positions; ++position) {
        const double* const at = of_image + position;
        double best = at[positions];
        for (std::int64_t k = 2; k < classes; ++k) best = std::max(best, at[k * positions]);
        const double score = best - at[0];
        if (!is_likely(score)) continue;
        const auto row = static_cast<double>(position / columns),
                   column = static_cast<double>(position % columns);
        const Field field{(column + 0.5) * strides_[m], (row + 0.5) * strides_[m], widths_[m], heights_[m]};
        const Sized box = decode(field, at + classes * positions, positions);
        const double x = std::max(box.x, 0.0), y = std::max(box.y, 0.0);
        const double width = std::min(box.width, right - x), height = std::min(box.height, below - y);
        if (!std::isfinite(box.x + box.y) || !is_large(width, height)) continue;
        found.boxes.push_back({x, y, x + width, y + height});
        found.scores.push_back(score);
      }
    }
    return found;
  }

  std::vector<double> widths_, heights_, strides_;  ///< of each input
};

const RegisterLayer<BoxOutputLayer> registered_box_output(
    "BoxOutput", {.about = "regions from maps of several scales (MS-CNN)",
                  .message = "box_output_param",
                  .examples = {"fg_thr: -2 iou_thr: 0.6 field_w: 20 field_w: 40 field_h: 20 field_h: 30 "
                               "downsample_rate: 8 downsample_rate: 16 max_nms_num: 9"},
                  .inputs = {{7, 4, 5}, {6, 2, 3}},
                  .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
