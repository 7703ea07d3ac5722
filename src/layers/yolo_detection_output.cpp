// What the maps of YOLO's detectors come to. Inputs: maps N x K (5 + C) x H x W as its losses take them
// (yolo_loss.cpp): Yolov3DetectionOutput with the biases that `mask` names for one input after the other, in
// pixels, anchors_scale of which a cell of that input has; YoloDetectionOutput with the same biases, in
// cells, for all. An image after the maps, in which a branch draws the boxes, is not read.
//
// A box's class is that of the highest probability (Yolov3: a sigmoid of each, YOLOv2: of a softmax), its
// confidence the probability times the objectness. Boxes with more than confidence_threshold go through
// non-maximum suppression, in which a box of one class may drop one of another (in MobileNet-YOLO, too).
//
// The output is DetectionOutput's: 1 x 1 x (N K') x 7, a row for each of the K' boxes of an image: item,
// label (from 1), confidence, xmin, ymin, xmax, ymax as fractions of the image, not cut off at its border, by
// falling confidence; rows left over hold the item and then -1. The host decides, waiting for the device.
#include <numeric>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/cell_boxes.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/boxes.hpp"
#include "layers/cell_targets.hpp"

namespace banyan {
namespace {

class CellOutputLayer : public Layer {
 public:
  CellOutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const std::int64_t items = image_shape(*inputs[0])[0];
    each_ = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Shape& map = image_shape(*inputs[i]);
      const std::int64_t boxes = std::ssize(sizes_[i]);
      if (map[0] != items || map[1] != boxes * (5 + classes_))
        refuse(quoted(inputs[i]->name), " is ", map.to_string(), "; expected ", items, " x ",
               boxes * (5 + classes_), " x H x W, ", 5 + classes_, " channels for each of ", boxes, " boxes");
      each_ += boxes * map.count(2);
    }
    set_output(*outputs[0], Shape{1, 1, items * each_, 7});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    std::vector<Values> maps;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Shape& map = inputs[i]->shape;
      ensure(*pass.context, y_, map, dtype());
      ops::cell_boxes_forward(*pass.context, inputs[i]->data,
                              {map[0] * std::ssize(sizes_[i]), classes_, map.count(2), exclusive_}, y_);
      maps.push_back(values_of(*pass.context, y_));
    }
    std::vector<double> rows;
    for (std::int64_t item = 0; item < maps[0].shape[0]; ++item) write_item(item, maps, rows);
    set_values(*pass.context, rows, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 protected:
  using Sizes = std::vector<std::array<double, 2>>;

  template <class Settings>
  void check(const Settings& s) const {
    if (s.num_classes() < 1 || s.num_box() < 1)
      refuse("num_classes and num_box must be positive; found ", s.num_classes(), " and ", s.num_box());
    if (!(s.nms_threshold() >= 0 && s.nms_threshold() <= 1))
      refuse("nms_threshold must be from 0 to 1; found ", s.nms_threshold());
    if (s.biases_size() % 2 != 0)
      refuse("biases are pairs of a width and a height; found ", s.biases_size(), " numbers");
    for (const float bias : s.biases())
      if (!(bias > 0)) refuse("biases must be positive; found ", bias);
  }
  template <class Settings>
  void read(const Settings& s, bool exclusive) {
    classes_ = s.num_classes();
    exclusive_ = exclusive;
    threshold_ = s.confidence_threshold();
    suppression_.threshold = s.nms_threshold();
  }

  std::vector<Sizes> sizes_;  ///< by map: of the boxes of a cell, in cells

 private:
  struct Candidates {
    std::vector<Box> boxes;
    std::vector<double> scores;
    std::vector<std::int64_t> classes;
  };

  void find(std::int64_t item, const Values& map, const Sizes& sizes, Candidates& found) const {
    const std::int64_t rows = map.shape[2], columns = map.shape[3], cells = rows * columns;
    const double* const of_item = map.values.data() + item * map.shape.count(1);
    for (std::int64_t cell = 0; cell < cells; ++cell)
      for (std::size_t n = 0; n < sizes.size(); ++n) {
        const double* const at = of_item + static_cast<std::int64_t>(n) * (5 + classes_) * cells + cell;
        std::int64_t best = 0;
        for (std::int64_t k = 1; k < classes_; ++k)
          if (at[(5 + k) * cells] > at[(5 + best) * cells]) best = k;
        const double score = at[4 * cells] * at[(5 + best) * cells];
        if (!(score > threshold_)) continue;
        found.boxes.push_back(cell_box(sizes[n], cell, rows, columns, at, cells));
        found.scores.push_back(score);
        found.classes.push_back(best);
      }
  }

  void write_item(std::int64_t item, const std::vector<Values>& maps, std::vector<double>& rows) const {
    Candidates found;
    for (std::size_t i = 0; i < maps.size(); ++i) find(item, maps[i], sizes_[i], found);
    std::vector<int> order(found.boxes.size());
    std::iota(order.begin(), order.end(), 0);
    const std::vector<int> kept =
        suppress(found.boxes, by_score(std::move(order), found.scores), suppression_);
    const auto number = static_cast<double>(item);
    for (const int k : kept) {
      const Box& box = found.boxes[k];
      rows.insert(rows.end(), {number, static_cast<double>(found.classes[k] + 1), found.scores[k], box.x1,
                               box.y1, box.x2, box.y2});
    }
    for (auto left = static_cast<std::int64_t>(kept.size()); left < each_; ++left)
      rows.insert(rows.end(), {number, -1, -1, -1, -1, -1, -1});
  }

  std::int64_t classes_ = 0, each_ = 0;  ///< each_: boxes of an image
  bool exclusive_ = false;
  double threshold_ = 0;
  Suppression suppression_;
  Tensor y_;
};

class YoloDetectionOutputLayer : public CellOutputLayer {
 public:
  using CellOutputLayer::CellOutputLayer;

  void read_settings() override {
    check(settings());
    if (settings().coords() != 4) refuse("coords must be 4; found ", settings().coords());
    const std::int64_t numbers = 2 * std::int64_t{settings().num_box()};
    if (settings().biases_size() < numbers)
      refuse("there must be biases for num_box boxes, ", numbers, "; found ", settings().biases_size());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& s = settings();
    read(s, true);
    Sizes sizes;
    for (int n = 0; n < static_cast<int>(s.num_box()); ++n)
      sizes.push_back({s.biases(2 * n), s.biases(2 * n + 1)});
    const bool shown = inputs.size() > 1 && inputs.back()->shape.axes() == 4 &&
                       inputs.back()->shape[1] < 5 + std::int64_t{s.num_classes()};
    sizes_.assign(inputs.size() - (shown ? 1 : 0), sizes);
  }

 private:
  const caffe::YoloDetectionOutputParameter& settings() const {
    return parameter_.yolo_detection_output_param();
  }
};

class Yolov3DetectionOutputLayer : public CellOutputLayer {
 public:
  using CellOutputLayer::CellOutputLayer;

  void read_settings() override {
    check(settings());
    for (const std::uint32_t scale : settings().anchors_scale())
      if (scale == 0) refuse("anchors_scale must be positive");
    const int biases = settings().biases_size() / 2;
    for (const std::uint32_t bias : settings().mask())
      if (std::int64_t{bias} >= biases) refuse("mask names bias ", bias, "; there are ", biases);
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& s = settings();
    read(s, false);
    const auto count = static_cast<int>(inputs.size());
    if (s.mask_group_num() != inputs.size() || s.anchors_scale_size() != count)
      refuse("mask_group_num must be the number of inputs, ", count, ", each with an anchors_scale; found ",
             s.mask_group_num(), " and ", s.anchors_scale_size());
    const auto each = static_cast<std::int64_t>(s.num_box());
    if (s.mask_size() != count * each)
      refuse("mask must name a bias for num_box boxes of each input, ", count * each, "; found ",
             s.mask_size());
    sizes_.clear();
    for (int i = 0; i < count; ++i) {
      const double unit = s.anchors_scale(i);
      Sizes& sizes = sizes_.emplace_back();
      for (int n = 0; n < static_cast<int>(each); ++n) {
        const int at = 2 * static_cast<int>(s.mask(i * static_cast<int>(each) + n));
        sizes.push_back({s.biases(at) / unit, s.biases(at + 1) / unit});
      }
    }
  }

 private:
  const caffe::Yolov3DetectionOutputParameter& settings() const {
    return parameter_.yolov3_detection_output_param();
  }
};

const RegisterLayer<YoloDetectionOutputLayer> registered_yolo_detection_output(
    "YoloDetectionOutput",
    {.about = "the boxes of a detector after non-maximum suppression (YOLOv2)",
     .message = "yolo_detection_output_param",
     .examples = {"num_classes: 4 num_box: 2 biases: [1.2, 0.8, 3, 3.5] confidence_threshold: 0.15"},
     .inputs = {{18, 4, 5}}});
const RegisterLayer<Yolov3DetectionOutputLayer> registered_yolov3_detection_output(
    "Yolov3DetectionOutput",
    {.about = "the boxes of a detector after non-maximum suppression (YOLOv3)",
     .message = "yolov3_detection_output_param",
     .examples = {"num_classes: 4 num_box: 2 biases: [6, 8, 20, 12, 40, 44] mask: [0, 2] anchors_scale: 16 "
                  "mask_group_num: 1 confidence_threshold: 0.25"},
     .inputs = {{18, 4, 5}}});

}  // namespace
}  // namespace banyan
