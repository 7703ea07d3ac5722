// Losses of YOLO's detectors, each of whose map's cells predicts K boxes.
//
// Inputs: a map N x K (5 + C) x H x W, the channels of each box being x, y, width, height, objectness and C
// classes; objects N x 1 x T x 5, rows (class from 0, centre x, y, width, height as fractions of the image),
// which end at a width of 0, or AnnotatedData's table ... x 8, whose labels count from 1 and whose difficult
// objects are left out. With s the sigmoid, box k of cell (i, j) is at ((j + s(x)) / W, (i + s(y)) / H) and
// of the size (e^w bias_w, e^h bias_h).
//
// Every object belongs to one box of the cell that its centre is in: that whose bias has the greatest
// overlap with its size. There, errors are weight (prediction - target) for x, y, w, h, objectness and
// classes; elsewhere only for objectness, the target being 0, unless the box overlaps an object by more than
// `thresh`. The loss is the sum of the squared errors by the number of images; gradients are not its:
//
// Yolov3 (MobileNet-YOLO): sigmoids for classes, biases in pixels, of which the boxes have those of `mask`
// and objects may fit others. Errors themselves are the gradients, those of cross entropies and of halved
// squares; with use_logic_gradient times the slope of sigmoids.
//
// RegionLoss (YOLOv2): a softmax for classes, biases in cells. Errors of x, y and objectness are multiplied
// by the slope of the sigmoid, in the loss too; all are the gradients. In the first 12800 images of a
// training every box is also drawn to its cell's centre and its bias, by 0.01.
//
// What belongs to what is decided on the host, which waits for the device.
#include <cmath>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/cell_boxes.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/cell_targets.hpp"
#include "layers/detection_boxes.hpp"

namespace banyan {
namespace {

class YoloLossLayer : public LossLayer {
 public:
  YoloLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1},
                   .backward_reads_inputs = false,
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;

 protected:
  /// Sizes of boxes in cells, of a map that has so many.
  virtual CellRules rules() const = 0;
  virtual std::int64_t boxes() const = 0;  ///< of a cell
  virtual std::int64_t classes() const = 0;
  virtual bool exclusive() const { return false; }
  virtual bool slopes_in_loss() const { return false; }
  virtual bool slopes_in_gradient() const { return false; }
  /// Weight of boxes in the first images of a training.
  virtual double own_place() const { return 0; }

  void check_numbers(std::int64_t biases, std::int64_t classes, std::int64_t boxes) const {
    if (classes < 1 || boxes < 1)
      refuse("num_class and num must be positive; found ", classes, " and ", boxes);
    if (biases == 0 || biases % 2 != 0)
      refuse("biases are pairs of a width and a height; found ", biases, " numbers");
  }
  template <class Biases>
  std::vector<std::array<double, 2>> sizes_of(const Biases& biases, std::size_t count, double unit) const {
    std::vector<std::array<double, 2>> sizes(count);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < 2; ++k) {
        const double bias = biases[static_cast<int>(2 * i + k)];
        if (!(bias > 0)) refuse("biases must be positive; found ", bias);
        sizes[i][k] = bias / unit;
      }
    return sizes;
  }

 private:
  std::vector<std::vector<CellObject>> read_objects(const Values& from) const;
  CellObject object_of(const double* row, std::int64_t number) const;
  void write(Context& context, const std::vector<double>& values, Tensor& to) const {
    ensure(context, to, y_.shape(), dtype());
    set_values(context, values, to);
  }

  static constexpr double kFirstImages = 12800;

  ops::CellBoxes over_;
  Shape map_;
  Tensor y_, targets_, weights_, errors_, slopes_;
};

void YoloLossLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  map_ = inputs[0]->shape;
  const std::int64_t channels = boxes() * (5 + classes());
  if (map_.axes() != 4 || map_[1] != channels || map_[2] < 1 || map_[3] < 1)
    refuse(quoted(inputs[0]->name), " is ", map_.to_string(), "; expected N x ", channels, " x H x W, ",
           5 + classes(), " channels for each of ", boxes(), " boxes");
  const Shape& objects = inputs[1]->shape;
  const bool table = objects.axes() > 0 && objects[-1] == 8;
  if (!table && (objects.axes() < 2 || objects[0] != map_[0] || objects.count(1) % 5 != 0))
    refuse(quoted(inputs[1]->name), " is ", objects.to_string(), "; expected ", map_[0],
           " x 1 x T x 5 (class, x, y, width, height), or AnnotatedData's table of rows of 8");
  over_ = {map_[0] * boxes(), classes(), map_.count(2), exclusive()};
  set_output(*outputs[0], Shape{});
}

CellObject YoloLossLayer::object_of(const double* row, std::int64_t number) const {
  const double label = row[0];
  if (!(label >= 0 && label < static_cast<double>(classes()) && label == std::floor(label)))
    refuse("object ", number, " has the class ", label, "; expected one from 0 below num_class, ", classes());
  for (int k = 1; k < 5; ++k)
    if (!std::isfinite(row[k])) refuse("the box of object ", number, " is not finite");
  return {static_cast<std::int64_t>(label), row[1], row[2], row[3], row[4]};
}

/// By image; those without an area are left out.
std::vector<std::vector<CellObject>> YoloLossLayer::read_objects(const Values& from) const {
  std::vector<std::vector<CellObject>> objects(static_cast<std::size_t>(map_[0]));
  if (from.shape[-1] == 8) {
    const GroundTruthRules rules{start_of_messages(*this), static_cast<int>(map_[0]),
                                 static_cast<int>(classes()) + 1, 0, false};
    const auto items = read_ground_truth(from.values, rules);
    for (std::size_t i = 0; i < items.size(); ++i)
      for (const auto& [box, label, difficult] : items[i])
        if (area(box) > 0)
          objects[i].push_back(
              {label - 1, (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.x2 - box.x1, box.y2 - box.y1});
    return objects;
  }
  const std::int64_t each = map_[0] == 0 ? 0 : from.shape.count(1) / 5;
  for (std::int64_t i = 0; i < map_[0]; ++i)
    for (std::int64_t t = 0; t < each; ++t) {
      const double* row = from.values.data() + (i * each + t) * 5;
      if (row[3] == 0) break;
      const CellObject object = object_of(row, t);
      if (object.width > 0 && object.height > 0) objects[static_cast<std::size_t>(i)].push_back(object);
    }
  return objects;
}

void YoloLossLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  find_divisor(pass, Normalization::batch_size, 0, map_[0]);
  ensure(context, y_, map_, dtype());
  ops::cell_boxes_forward(context, inputs[0]->data, over_, y_);
  CellRules how = rules();
  if (own_place() > 0 && options().phase == Phase::train) {
    const double images = values_of(context, divisor_).values.at(0);
    if (static_cast<double>(pass.draw) * images < kFirstImages) how.own_place = own_place();
  }
  const std::vector<double> predicted = values_of(context, y_).values;
  const auto objects = read_objects(values_of(context, inputs[1]->data));
  std::vector<double> targets(predicted.size()), weights(predicted.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const std::size_t first = i * static_cast<std::size_t>(map_.count(1));
    write_cell_targets(how, map_[2], map_[3], predicted.data() + first, objects[i],
                       {targets.data() + first, weights.data() + first});
  }
  write(context, targets, targets_);
  write(context, weights, weights_);
  ensure(context, errors_, map_, dtype());
  ops::copy(context, y_, errors_);
  ops::axpby(context, -1, targets_, 1, errors_);
  ops::multiply(context, errors_, weights_, errors_);
  if (slopes_in_loss()) ops::cell_boxes_slopes(context, y_, errors_, over_, errors_);
  ensure(context, partial_, Shape{2}, DType::f64);
  Tensor sum = partial_.slice(0, Shape{1});
  ops::sum_of_squares(context, errors_, sum);
  write_loss(pass, *outputs[0]);
}

void YoloLossLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                             const Blobs& inputs) {
  if (!propagate[0]) return;
  Context& context = *pass.context;
  if (slopes_in_gradient()) {
    ensure(context, slopes_, map_, dtype());
    ops::cell_boxes_slopes(context, y_, errors_, over_, slopes_);
  }
  ops::euclidean_backward(context, slopes_in_gradient() ? slopes_ : errors_, 1, outputs[0]->grad, divisor_,
                          inputs[0]->grad);
}

class Yolov3Layer : public YoloLossLayer {
 public:
  using YoloLossLayer::YoloLossLayer;

  void read_settings() override {
    check_numbers(settings().biases_size(), classes(), boxes());
    if (settings().anchors_scale() == 0) refuse("anchors_scale must be positive");
    if (settings().mask_size() == 0 && settings().biases_size() != 2 * boxes())
      refuse("without mask there must be biases for num boxes, ", 2 * boxes(), "; found ",
             settings().biases_size());
    if (settings().mask_size() > 0 && settings().mask_size() != boxes())
      refuse("mask must name a bias for each of num boxes, ", boxes(), "; found ", settings().mask_size());
    for (const std::uint32_t one : settings().mask())
      if (static_cast<int>(one) >= settings().biases_size() / 2)
        refuse("mask names bias ", one, "; there are ", settings().biases_size() / 2);
    sizes_of(settings().biases(), static_cast<std::size_t>(settings().biases_size() / 2), 1);
  }

 protected:
  CellRules rules() const override {
    const auto& s = settings();
    CellRules rules;
    rules.classes = classes();
    rules.sizes = sizes_of(s.biases(), static_cast<std::size_t>(s.biases_size() / 2), s.anchors_scale());
    for (std::size_t n = 0; n < static_cast<std::size_t>(boxes()); ++n)
      rules.own.push_back(s.mask_size() > 0 ? s.mask(static_cast<int>(n)) : n);
    rules.threshold = s.thresh();
    rules.objectness = s.use_logic_gradient() ? s.object_scale() : 1;
    rules.coordinates = s.coord_scale();
    rules.class_weight = s.class_scale();
    return rules;
  }
  std::int64_t boxes() const override { return settings().num(); }
  std::int64_t classes() const override { return settings().num_class(); }
  bool slopes_in_gradient() const override { return settings().use_logic_gradient(); }

 private:
  const caffe::Yolov3Parameter& settings() const { return parameter_.yolov3_param(); }
};

class RegionLossLayer : public YoloLossLayer {
 public:
  using YoloLossLayer::YoloLossLayer;

  void read_settings() override {
    const auto& s = settings();
    check_numbers(s.biases_size(), classes(), boxes());
    if (s.biases_size() < 2 * boxes())
      refuse("there must be biases for num boxes, ", 2 * boxes(), "; found ", s.biases_size());
    if (s.coords() != 4) refuse("coords must be 4; found ", s.coords());
    if (s.softmax() == 0) refuse("softmax: 0 is not supported: classes exclude each other");
    if (s.has_softmax_tree() || s.has_class_map())
      refuse("softmax_tree and class_map are not supported: there are no trees of classes");
    sizes_of(s.biases(), static_cast<std::size_t>(boxes()), 1);
  }

 protected:
  CellRules rules() const override {
    const auto& s = settings();
    CellRules rules;
    rules.classes = classes();
    rules.sizes = sizes_of(s.biases(), static_cast<std::size_t>(boxes()), 1);
    for (std::size_t n = 0; n < rules.sizes.size(); ++n) rules.own.push_back(n);
    rules.threshold = s.thresh();
    rules.objectness = s.object_scale();
    rules.no_object = s.noobject_scale();
    rules.coordinates = s.coord_scale();
    rules.class_weight = s.class_scale();
    rules.small_boxes_weigh_more = s.rescore() == 0;
    rules.overlap_is_objectness = s.rescore() != 0;
    rules.matches_predicted_sizes = s.bias_match() == 0;
    rules.exclusive = true;
    return rules;
  }
  std::int64_t boxes() const override { return settings().num(); }
  std::int64_t classes() const override { return settings().num_class(); }
  bool exclusive() const override { return true; }
  bool slopes_in_loss() const override { return true; }
  double own_place() const override { return 0.01; }

 private:
  const caffe::RegionLossParameter& settings() const { return parameter_.region_loss_param(); }
};

const RegisterLayer<Yolov3Layer> registered_yolov3(
    "Yolov3",
    {.about = "loss of the boxes of a map's cells and their classes (YOLOv3)",
     .message = "yolov3_param",
     .examples = {"num_class: 4 num: 2 biases: [6, 8, 20, 12, 40, 44] mask: [0, 2] anchors_scale: 16 "
                  "thresh: 0.5 coord_scale: 1",
                  "num_class: 4 num: 2 biases: [6, 8, 20, 12] anchors_scale: 8 use_logic_gradient: "
                  "true object_scale: 2"},
     .inputs = {{18, 4, 4}, {1, 6, 5}}});
const RegisterLayer<RegionLossLayer> registered_region_loss(
    "RegionLoss", {.about = "loss of the boxes of a map's cells and their classes (YOLOv2)",
                   .message = "region_loss_param",
                   .examples = {"num_class: 4 num: 2 biases: [1.2, 0.8, 3, 3.5] thresh: 0.5",
                                "num_class: 4 num: 2 biases: [1.2, 0.8, 3, 3.5] rescore: 0 bias_match: 0"},
                   .inputs = {{18, 4, 4}, {1, 6, 5}}});

}  // namespace
}  // namespace banyan
