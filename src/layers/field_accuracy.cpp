// DetectionAccuracy (MS-CNN) and DetectionGroupAccuracy (Cascade R-CNN): how good the maps are that
// DetectionLoss and DetectionGroupLoss train; inputs as theirs. Output: the share of positions whose class
// has the highest score, of those that are objects or may be background (overlap below bg_threshold), and the
// same of objects alone; and, if asked for, the mean overlap of the objects' predicted boxes with their own.
// -1 where there is none.
//
// In training on several devices an output is the device's share. The host does the work, waiting for the
// device.
#include "layers/field_codes.hpp"
#include "measuring_box_layer.hpp"

namespace banyan {
namespace {

class FieldAccuracyLayer : public MeasuringBoxLayer {
 public:
  FieldAccuracyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : MeasuringBoxLayer(
            parameter, options,
            parameter.type() == "DetectionGroupAccuracy" ? Arity{3, 3, 1, 2} : Arity{2, 2, 1, 2}) {}

  void read_settings() override {
    if (of_groups()) {
      const auto& s = parameter_.detection_group_accuracy_param();
      read(s, s.field_w(), s.field_h(), s.stride());
      return;
    }
    const auto& s = parameter_.detection_accuracy_param();
    if (s.coord_num() != 4) refuse("coord_num must be 4; found ", s.coord_num());
    if (s.top_k() != 1) refuse("top_k must be 1; found ", s.top_k());
    read(s, std::vector{s.field_w()}, std::vector{s.field_h()}, s.downsample_rate());
    codes_.scale = {};  // that layer knows no bbox_reg_param
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& map = image_shape(*inputs[0]);
    std::vector<std::int64_t> channels{classes_ + 4, 6};
    if (of_groups()) channels = {classes_, 4, 6};
    for (std::size_t i = 0; i < channels.size(); ++i) {
      const Shape expected{map[0], channels[i], map[2], map[3]};
      if (inputs[i]->shape != expected)
        refuse(quoted(inputs[i]->name), " is ", inputs[i]->shape.to_string(), "; expected ",
               expected.to_string());
    }
    set_output(*outputs[0], Shape{2});
    if (outputs.size() > 1) set_output(*outputs[1], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Values scores = values_of(context, inputs[0]->data),
                 truth = values_of(context, inputs.back()->data);
    const Values codes = of_groups() ? values_of(context, inputs[1]->data) : Values{};
    const Shape& shape = scores.shape;
    const std::int64_t positions = shape.count(2);
    counts_ = {};
    for (std::int64_t map = 0; map < shape[0]; ++map)
      for (std::int64_t at = 0; at < positions; ++at) {
        const double* const of_scores = scores.values.data() + map * shape.count(1) + at;
        const double* const of_truth = truth.values.data() + map * 6 * positions + at;
        const double* const code =
            of_groups() ? codes.values.data() + map * 4 * positions + at : of_scores + classes_ * positions;
        compare(map, {at / shape[3], at % shape[3]}, of_scores, code, of_truth, positions);
      }
    const std::vector<double> all = of_all_devices(pass, {counts_.begin(), counts_.end()});
    const auto mean = [&](std::size_t sum, std::size_t of) {
      return share(pass, counts_[sum], all[of], shape[0]);
    };
    set_values(context, {mean(kRight, kCounted), mean(kRightObjects, kObjects)}, outputs[0]->data);
    if (outputs.size() > 1) set_values(context, {mean(kOverlaps, kObjects)}, outputs[1]->data);
  }

 private:
  enum { kRight, kCounted, kRightObjects, kObjects, kOverlaps, kCounts };

  bool of_groups() const { return type() == "DetectionGroupAccuracy"; }

  template <class Settings, class Fields>
  void read(const Settings& s, const Fields& widths, const Fields& heights, double stride) {
    const auto complain = [this](const auto&... why) { refuse(why...); };
    classes_ = s.cls_num();
    objectness_ = s.objectness();
    check_classes(classes_, objectness_, complain);
    bg_threshold_ = s.bg_threshold();
    maps_.read(widths, heights, stride, complain);
    codes_.scale = read_bbox_scale(parameter_.bbox_reg_param(), complain);
    codes_.limit(s.field_xyr(), s.field_whr(), complain);
  }

  /// What follows is `step` numbers further on.
  void compare(std::int64_t map, std::pair<std::int64_t, std::int64_t> place, const double* scores,
               const double* code, const double* truth, std::int64_t step) {
    const double own = !(truth[0] >= 1) ? 0 : objectness_ ? 1 : std::floor(truth[0]);
    if (own == 0 && static_cast<float>(truth[5 * step]) >= bg_threshold_) return;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes_; ++c)
      if (scores[c * step] > scores[best * step] || (!of_groups() && scores[c * step] == scores[best * step]))
        best = c;
    const double right = static_cast<double>(best) == own ? 1 : 0;
    counts_[kCounted] += 1;
    counts_[kRight] += right;
    if (own == 0) return;
    counts_[kObjects] += 1;
    counts_[kRightObjects] += right;
    const Field field = maps_.field(map % std::ssize(maps_.sizes), place.first, place.second);
    const auto found = codes_.box(field, code, step);
    const auto corners = [](double x, double y, double width, double height) {
      return Box{x - width / 2, y - height / 2, x + width / 2, y + height / 2};
    };
    counts_[kOverlaps] += overlap(corners(found[0], found[1], found[2], found[3]),
                                  corners(truth[step], truth[2 * step], truth[3 * step], truth[4 * step]));
  }

  FieldMaps maps_;
  FieldCodes codes_;
  std::int64_t classes_ = 0;
  bool objectness_ = false;
  float bg_threshold_ = 0;
  std::array<double, kCounts> counts_{};
};

const RegisterLayer<FieldAccuracyLayer> registered_detection_accuracy(
    "DetectionAccuracy", {.about = "how good a detector's map is (MS-CNN)",
                          .message = "detection_accuracy_param",
                          .examples = {"cls_num: 4 field_w: 4 field_h: 6 downsample_rate: 2"},
                          .inputs = {{8, 3, 4}, {6, 3, 4}}});
const RegisterLayer<FieldAccuracyLayer> registered_detection_group_accuracy(
    "DetectionGroupAccuracy", {.about = "how good the maps of a region proposal network are (Cascade R-CNN)",
                               .message = "detection_group_accuracy_param",
                               .examples = {"cls_num: 4 field_w: 4 field_h: 6 stride: 2"},
                               .inputs = {{4, 3, 4}, {4, 3, 4}, {6, 3, 4}},
                               .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
