// BoxGroupOutput: the regions that a region proposal network finds, from maps of one or more scales (Cascade
// R-CNN). Inputs, in pairs: the probabilities (N g) x C x H x W of each of a position's g fields, the first
// of which is that of the background, and the shifts of its boxes, (N g) x 4 x H x W. A box's score is 1 less
// the background's probability. See field_output_layer.hpp.
#include "field_output_layer.hpp"

namespace banyan {
namespace {

class BoxGroupOutputLayer : public FieldOutputLayer {
 public:
  BoxGroupOutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FieldOutputLayer(parameter, options, {2, -1, 1, 2}, Corners::pixels) {}

  void read_settings() override {
    const auto& s = parameter_.box_group_output_param();
    read(s);
    if (2 * s.box_group_param_size() != parameter_.bottom_size())
      refuse("box_group_param is given ", s.box_group_param_size(), " times and there are ",
             parameter_.bottom_size(), " inputs; expected two for each: probabilities and boxes");
    for (const caffe::BoxGroupParameter& group : s.box_group_param()) {
      if (group.field_w_size() == 0) refuse("a box_group_param without field_w");
      groups_.push_back({sizes("field_w", group.field_w(), group.field_w_size(), "field"),
                         sizes("field_h", group.field_h(), group.field_w_size(), "field_w"), group.stride()});
      if (!(group.stride() > 0)) refuse("stride must be positive; found ", group.stride());
    }
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    std::int64_t images = 0, each = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Shape &scores = image_shape(*inputs[2 * g]), &boxes = image_shape(*inputs[2 * g + 1]);
      if (scores[1] < 2 || boxes[1] != 4 || scores[0] != boxes[0] || scores[2] != boxes[2] ||
          scores[3] != boxes[3])
        refuse(quoted(inputs[2 * g]->name), " is ", scores.to_string(), " and ",
               quoted(inputs[2 * g + 1]->name), " ", boxes.to_string(),
               "; expected (N g) x C x H x W, C at least 2, and (N g) x 4 x H x W");
      const std::int64_t fields = std::ssize(groups_[g].widths);
      if (scores[0] % fields != 0)
        refuse("axis 0 of ", quoted(inputs[2 * g]->name), " is ", scores[0], "; expected a multiple of ",
               fields, ", the fields of its box_group_param");
      if (g > 0 && scores[0] / fields != images)
        refuse(quoted(inputs[2 * g]->name), " has ", scores[0] / fields, " images of ", fields,
               " fields and ", quoted(inputs[0]->name), " has ", images);
      images = scores[0] / fields;
      each += fields * scores.count(2);
    }
    plan(images, each, outputs);
  }

 private:
  struct Group {
    std::vector<double> widths, heights;
    double stride;
  };

  Found find(std::int64_t image, const std::vector<Values>& maps) const override {
    Found found;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t k = 0; k < groups_[g].widths.size(); ++k)
        find_field(image, groups_[g], k, maps[2 * g], maps[2 * g + 1], found);
    return found;
  }

  void find_field(std::int64_t image, const Group& group, std::size_t k, const Values& probabilities,
                  const Values& shifts, Found& found) const {
    const Shape& shape = probabilities.shape;
    const std::int64_t item = image * std::ssize(group.widths) + static_cast<std::int64_t>(k);
    const std::int64_t positions = shape.count(2), columns = shape[3];
    const double right = static_cast<double>(columns) * group.stride,
                 below = static_cast<double>(shape[2]) * group.stride;
    for (std::int64_t position = 0; position < positions; ++position) {
      const double score = 1 - probabilities.values[item * shape.count(1) + position];
      if (!is_likely(score)) continue;
      const auto row = static_cast<double>(position / columns),
                 column = static_cast<double>(position % columns);
      const Field field{(column + 0.5) * group.stride, (row + 0.5) * group.stride, group.widths[k],
                        group.heights[k]};
      const Sized sized = decode(field, shifts.values.data() + item * 4 * positions + position, positions);
      const Box box =
          clipped({sized.x, sized.y, sized.x + sized.width - 1, sized.y + sized.height - 1}, right, below);
      if (!std::isfinite(sized.x + sized.y) || !is_large(box.x2 - box.x1 + 1, box.y2 - box.y1 + 1)) continue;
      found.boxes.push_back(box);
      found.scores.push_back(score);
    }
  }

  std::vector<Group> groups_;
};

const RegisterLayer<BoxGroupOutputLayer> registered_box_group_output(
    "BoxGroupOutput", {.about = "regions from the fields of maps of several scales (Cascade R-CNN)",
                       .message = "box_group_output_param",
                       .examples = {"fg_thr: -2 iou_thr: 0.6 max_post_nms_num: 5 "
                                    "box_group_param { field_w: 20 field_h: 30 stride: 8 } "
                                    "box_group_param { field_w: 40 field_h: 40 }"},
                       .inputs = {{2, 4, 5}, {4, 4, 5}, {3, 2, 3}, {4, 2, 3}},
                       .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
